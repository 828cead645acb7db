"""What a pod's container becomes as a process of this machine: its words and its environment, with mount points turned into folders.

There is no mount namespace: a word or a variable that is a mount point, or lies in one, names the folder itself. Nothing makes a mount read-only.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconcile.cluster.port import Object

Read = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""From a kind (`Secret`, `ConfigMap`) and a name to its data; NotFound, when there is none, becomes `NotStartable`."""


class NotStartable(Exception):
    """A container cannot be started yet; `reason` is the kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Process:
    """A container as a process."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Folders:
    """Where volumes are: of each claim, and of one pod's own."""

    claims: Mapping[str, Path]
    pod: Path


async def volumes_of(pod: Object, folders: Folders, read: Read) -> dict[str, Path]:
    """Return the folder of each volume of a pod, made and filled.

    Raises:
        NotStartable: FailedMount: a claim, Secret or ConfigMap is missing, or the source is one that is not played here.
    """
    found: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        ((source, spec),) = [(key, value) for key, value in volume.items() if key != "name"]
        folder = folders.pod / "volumes" / volume["name"]
        if source == "persistentVolumeClaim":
            if spec["claimName"] not in folders.claims:
                raise NotStartable("FailedMount", f'persistentvolumeclaim "{spec["claimName"]}" not found')
            folder = folders.claims[spec["claimName"]]
        elif source in ("secret", "configMap"):
            folder.mkdir(parents=True, exist_ok=True)
            data = await read(*(("Secret", spec["secretName"]) if source == "secret" else ("ConfigMap", spec["name"])))
            for key, text in data.items():
                (folder / key).write_text(text)
        elif source == "emptyDir":
            folder.mkdir(parents=True, exist_ok=True)
        else:
            raise NotStartable("FailedMount", f"volumes of the source {source} are not played here")
        found[volume["name"]] = folder
    return found


async def process_of(pod: Object, container: Mapping[str, Any], volumes: Mapping[str, Path], read: Read, path: str) -> Process:
    """Return a container's process. `path` is the PATH that its image would set.

    Raises:
        NotStartable: CreateContainerConfigError: a Secret, ConfigMap or key is missing.
    """
    mounts: dict[str, Path] = {}
    for mount in container.get("volumeMounts") or ():
        place = volumes[mount["name"]] / mount.get("subPath", "")
        if not place.exists():
            place.mkdir(parents=True)
        mounts[mount["mountPath"].rstrip("/")] = place
    variables = {"PATH": path, "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    async for name, value in _variables(pod, container, read):
        variables[name] = _mounted(_expanded(value, variables), mounts)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return Process(container["name"], tuple(_mounted(_expanded(word, variables), mounts) for word in words), variables)


async def _variables(pod: Object, container: Mapping[str, Any], read: Read) -> Any:
    for source in container.get("envFrom") or ():
        kind, reference = ("Secret", source["secretRef"]) if "secretRef" in source else ("ConfigMap", source["configMapRef"])
        for key, value in (await _data(kind, reference, read)).items():
            yield source.get("prefix", "") + key, value
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        if "fieldRef" in source:
            yield variable["name"], _field(pod, source["fieldRef"]["fieldPath"])
            continue
        reference = source.get("secretKeyRef") or source.get("configMapKeyRef")
        if reference is None:
            yield variable["name"], variable.get("value", "")
            continue
        kind = "Secret" if "secretKeyRef" in source else "ConfigMap"
        data = await _data(kind, reference, read)
        if reference["key"] in data:
            yield variable["name"], data[reference["key"]]
        elif not reference.get("optional"):
            raise NotStartable("CreateContainerConfigError", f"couldn't find key {reference['key']} in {kind} {reference['name']}")


async def _data(kind: str, reference: Mapping[str, Any], read: Read) -> Mapping[str, str]:
    try:
        return await read(kind, reference["name"])
    except NotStartable:
        if reference.get("optional"):
            return {}
        raise NotStartable("CreateContainerConfigError", f'{kind.lower()} "{reference["name"]}" not found') from None


def decoded(obj: Object) -> dict[str, str]:
    """Return the data of a Secret or ConfigMap as text."""
    data: Mapping[str, str] = obj.get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()} if obj["kind"] == "Secret" else dict(data)


def _field(pod: Object, path: str) -> str:
    if keyed := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    value: Any = pod
    for step in path.split("."):
        value = value.get(step, "")
    return str(value)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by variables that stand before; `$$` is a dollar sign, and unknown names stay as they are."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]), text)


def _mounted(text: str, mounts: Mapping[str, Path]) -> str:
    return next((str(mounts[point]) + text[len(point) :] for point in _longest_first(mounts) if f"{text}/".startswith(f"{point}/")), text)


def _longest_first(mounts: Mapping[str, Path]) -> Iterator[str]:
    return iter(sorted(mounts, key=len, reverse=True))
