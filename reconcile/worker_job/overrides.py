"""An ArenaJob's `spec.workers.podOverrides`, checked against what is Arena's own and laid over a worker pod.

Whoever may write an ArenaJob need not be allowed to write pods, so the overrides may place a pod and bring it secrets, but reach neither the node nor
the content of other runs. What the API server refuses by itself (a label that is none, a toleration without a meaning) is left to it.
"""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from reconcile.kinds.job_pods import PodOverrides, Volume, VolumeMount
from reconcile.worker_job.errors import OverridesRefused

OWN_VARIABLES: Final = "ARENA_"
"""Variables that begin so are Arena's, set or not."""
VOLUME_SOURCES: Final = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
"""Sources that the restricted pod security standard allows."""
_SOURCES_HERE: Final = ("secretKeyRef", "configMapKeyRef")
_JOB_LABELS: Final = ("batch.kubernetes.io/", "controller-uid", "job-name")
_POD_FIELDS: Final = ("service_account_name", "node_selector", "tolerations", "priority_class_name", "image_pull_secrets")


def lay_over(template: dict[str, Any], overrides: PodOverrides) -> None:
    """Change a pod template of one container as the overrides say: Arena's labels, variables, volumes and mounts stay as they are.

    Raises:
        OverridesRefused: an override would replace something of Arena's, or reach what a worker may not.
    """
    pod = template["spec"]
    (container,) = pod["containers"]
    problems = [*_label_problems(overrides), *_variable_problems(overrides, container), *_volume_problems(overrides, pod)]
    problems += _mount_problems(overrides, pod, container)
    if problems:
        raise OverridesRefused(problems)
    metadata, said = template["metadata"], _said(overrides)
    metadata["labels"] = {**overrides.labels, **metadata["labels"]}
    if annotations := {**metadata.get("annotations", {}), **overrides.annotations}:
        metadata["annotations"] = annotations
    fields = [PodOverrides.model_fields[name].alias or name for name in _POD_FIELDS]
    pod |= {field: said[field] for field in fields if said.get(field)}
    pod["volumes"] += said["extraVolumes"]
    container["volumeMounts"] += said["extraVolumeMounts"]
    _add_variables(container, said)


def lay_over_process(template: dict[str, Any], overrides: PodOverrides) -> None:
    """Change the template of a worker that is a process of this machine: of the overrides only variables say something of such a one.

    Raises:
        OverridesRefused: a variable is Arena's own, or its value is one that only a pod has.
    """
    (container,) = template["spec"]["containers"]
    problems = [*_variable_problems(overrides, container), *_source_problems_here(overrides)]
    if problems:
        raise OverridesRefused(problems)
    _add_variables(container, _said(overrides))


def idle_here(overrides: PodOverrides) -> list[str]:
    """Return the fields that are set and say nothing of a process of this machine."""
    return [PodOverrides.model_fields[name].alias or name for name in ("labels", "annotations", *_POD_FIELDS) if getattr(overrides, name)]


def _said(overrides: PodOverrides) -> dict[str, Any]:
    return overrides.model_dump(mode="json", by_alias=True, exclude_none=True)


def _add_variables(container: dict[str, Any], said: dict[str, Any]) -> None:
    container["env"] += said["extraEnv"]
    if said["extraEnvFrom"]:
        container["envFrom"] = said["extraEnvFrom"]


def _source_problems_here(overrides: PodOverrides) -> Iterator[str]:
    for place, variable in enumerate(overrides.extra_env):
        for source in (variable.value_from or {}).keys() - set(_SOURCES_HERE):
            yield f"extraEnv[{place}]: '{source}' is known of pods alone; a process of this machine may have {' or '.join(_SOURCES_HERE)}"


def _label_problems(overrides: PodOverrides) -> Iterator[str]:
    for name in overrides.labels:
        if name.startswith(_JOB_LABELS[0]) or name in _JOB_LABELS:
            yield f"labels: '{name}' belongs to the Job controller"


def _variable_problems(overrides: PodOverrides, container: dict[str, Any]) -> Iterator[str]:
    own = {variable["name"] for variable in container["env"]}
    names = [variable.name for variable in overrides.extra_env]
    for place, name in enumerate(names):
        if name in own or name.startswith(OWN_VARIABLES):
            yield f"extraEnv[{place}]: variable '{name}' is Arena's own"
    yield from _twice("extraEnv", "variable", names)


def _volume_problems(overrides: PodOverrides, pod: dict[str, Any]) -> Iterator[str]:
    own = {volume["name"] for volume in pod["volumes"]}
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume}
    for place, volume in enumerate(overrides.extra_volumes):
        if volume.name in own:
            yield f"extraVolumes[{place}]: volume '{volume.name}' is Arena's own"
        yield from (f"extraVolumes[{place}]: volume '{volume.name}' {problem}" for problem in _source_problems(volume, claims))
    yield from _twice("extraVolumes", "volume", [volume.name for volume in overrides.extra_volumes])


def _source_problems(volume: Volume, claims: Collection[str]) -> Iterator[str]:
    sources = volume.model_extra or {}
    for source in sources.keys() - set(VOLUME_SOURCES):
        yield f"has the source '{source}', which restricted pods may not have; they may have {', '.join(VOLUME_SOURCES)}"
    claim = sources.get("persistentVolumeClaim")
    if isinstance(claim, dict) and claim.get("claimName") in claims:
        yield f"claims '{claim['claimName']}', which holds the content of other runs"


def _mount_problems(overrides: PodOverrides, pod: dict[str, Any], container: dict[str, Any]) -> Iterator[str]:
    known = {volume.name for volume in overrides.extra_volumes}
    own = {volume["name"] for volume in pod["volumes"]}
    for place, mount in enumerate(overrides.extra_volume_mounts):
        where = f"extraVolumeMounts[{place}]: "
        if mount.name in own:
            yield f"{where}volume '{mount.name}' is Arena's own"
        elif mount.name not in known:
            yield f"{where}volume '{mount.name}' is not among extraVolumes"
        yield from (where + problem for problem in _path_problems(mount, container["volumeMounts"]))
    yield from _twice("extraVolumeMounts", "path", [posixpath.normpath(mount.mount_path) for mount in overrides.extra_volume_mounts])


def _path_problems(mount: VolumeMount, own: Iterable[dict[str, Any]]) -> Iterator[str]:
    if not mount.mount_path.startswith("/"):
        yield f"path '{mount.mount_path}' must be absolute"
        return
    path = posixpath.normpath(mount.mount_path).replace("//", "/")
    for taken in (entry["mountPath"] for entry in own):
        if _is_within(taken, path) or _is_within(path, taken):
            yield f"path '{mount.mount_path}' would cover Arena's own {taken}, or lie in it"


def _is_within(path: str, directory: str) -> bool:
    return posixpath.commonpath((path, directory)) == directory


def _twice(field: str, what: str, names: Sequence[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        if name in names[:place]:
            yield f"{field}[{place}]: {what} '{name}' is there already"
