"""What a pod's container becomes as a process of this machine: its words, its environment and what is mounted where.

How it sees its mounts is a runtime's: `in_folders` here, which needs nothing of the machine, or `kubelet_room`.
"""

import base64
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconcile.cluster.port import Object

Read = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""From a kind (`Secret`, `ConfigMap`) and a name to its data; NotFound, when there is none, becomes `NotStartable`."""
Token = Callable[[int], Awaitable[str]]
"""Makes a token of the pod's service account that is good for so many seconds."""
_OPEN = 0o777


class NotStartable(Exception):
    """A container cannot be started yet; `reason` is the kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of this machine, and the container's path of it."""

    path: str
    folder: Path
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class Process:
    """A container as a process. `security` is the container's securityContext over the pod's."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    security: Mapping[str, Any]


Runtime = Callable[[Process, Path], Process]
"""Makes a process see its mounts; the folder is the container's own."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where volumes are: of each claim, and of one pod's own."""

    claims: Mapping[str, Path]
    pod: Path


async def volumes_of(pod: Object, folders: Folders, read: Read, token: Token) -> dict[str, Path]:
    """Return the folder of each volume of a pod, made and filled. A claim's folder becomes the pod's fsGroup's, as OnRootMismatch has it.

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
            _own(folder, (pod["spec"].get("securityContext") or {}).get("fsGroup"))
        elif source in ("secret", "configMap"):
            kind, name = ("Secret", spec["secretName"]) if source == "secret" else ("ConfigMap", spec["name"])
            _fill(folder, await read(kind, name))
        elif source == "projected":
            _fill(folder, await _projected(pod, spec, read, token))
        elif source == "emptyDir":
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(_OPEN)
        else:
            raise NotStartable("FailedMount", f"volumes of the source {source} are not played here")
        found[volume["name"]] = folder
    return found


async def _projected(pod: Object, spec: Mapping[str, Any], read: Read, token: Token) -> dict[str, str]:
    """Return the files of a projected volume."""
    files: dict[str, str] = {}
    for ((source, wanted),) in (each.items() for each in spec["sources"]):
        if source == "serviceAccountToken":
            files[wanted["path"]] = await token(wanted["expirationSeconds"])
        elif source == "downwardAPI":
            files |= {item["path"]: _field(pod, item["fieldRef"]["fieldPath"]) for item in wanted["items"]}
        else:
            data = await read("Secret" if source == "secret" else "ConfigMap", wanted["name"])
            files |= {item["path"]: data[item["key"]] for item in wanted.get("items") or ({"key": key, "path": key} for key in data)}
    return files


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def _own(folder: Path, group: int | None) -> None:
    """Give a claim's root to a group; only root can, and for nobody else does it matter."""
    if group is not None and os.geteuid() == 0 and folder.stat().st_gid != group:
        os.chown(folder, -1, group)
        folder.chmod(0o2770)


async def process_of(pod: Object, container: Mapping[str, Any], volumes: Mapping[str, Path], read: Read, base: Mapping[str, str]) -> Process:
    """Return a container's process. `base` are the variables that its image and the kubelet would set.

    Raises:
        NotStartable: CreateContainerConfigError: a Secret, ConfigMap or key is missing.
    """
    mounts = []
    for mount in container.get("volumeMounts") or ():
        place = volumes[mount["name"]] / mount.get("subPath", "")
        if not place.exists():
            place.mkdir(parents=True)
        mounts.append(Mount(mount["mountPath"].rstrip("/"), place, mount.get("readOnly", False)))
    variables = {**base, "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    async for name, value in _variables(pod, container, read):
        variables[name] = _expanded(value, variables)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    security = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    return Process(container["name"], tuple(_expanded(word, variables) for word in words), variables, tuple(mounts), security)


def in_folders(process: Process, home: Path) -> Process:
    """Have a word or a variable that is a mount point, or lies in one, name the folder itself. Nothing makes a mount read-only.

    PATH stays: the programs are this machine's, and may lie below /tmp, where containers have a scratch directory.
    """
    home.mkdir(parents=True, exist_ok=True)
    mounts = {mount.path: mount.folder for mount in process.mounts}
    variables = {name: value if name == "PATH" else _mounted(value, mounts) for name, value in process.environment.items()}
    return replace(process, words=tuple(_mounted(word, mounts) for word in process.words), environment=variables)


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
