"""Where clouds host models: the hosts of a region, and the place of a project.

Owns those addresses. A region and a project become parts of a host and a path, so they are names and nothing else. Must not know keys or models.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import FeatureNotSupported

Spec = Mapping[str, Any]

_REGION: Final = re.compile(r"[a-z0-9-]{2,40}")
_PROJECT: Final = re.compile(r"[a-z0-9.:-]{1,80}")


def bedrock_host(spec: Spec) -> tuple[str, str]:
    """Return Bedrock's address, and its region; `base_url` or `platform.endpoint` stands in for the address.

    Raises:
        FeatureNotSupported: the spec names no region.
    """
    region = _named(spec, "region", _REGION)
    written = spec.get("base_url") or (spec.get("platform") or {}).get("endpoint")
    tail = ".cn" if region.startswith("cn-") else ""
    return str(written or f"https://bedrock-runtime.{region}.amazonaws.com{tail}").rstrip("/"), region


def vertex_place(spec: Spec, version: str) -> str:
    """Return the address of a project in a region of Vertex, in a version of its API; `platform.endpoint` stands in for the host.

    Raises:
        FeatureNotSupported: the spec names no project or no region.
    """
    region, project = _named(spec, "region", _REGION), _named(spec, "project", _PROJECT)
    host = (spec.get("platform") or {}).get("endpoint")
    if not host:
        host = {
            "global": "https://aiplatform.googleapis.com",
            "us": "https://aiplatform.us.rep.googleapis.com",
            "eu": "https://aiplatform.eu.rep.googleapis.com",
        }.get(region, f"https://{region}-aiplatform.googleapis.com")
    return f"{str(host).rstrip('/')}/{version}/projects/{project}/locations/{region}"


def azure_endpoint(spec: Spec) -> str:
    """Return the address of a resource of Azure's, without what a person may have copied along.

    Raises:
        FeatureNotSupported: the spec names none.
    """
    written = str((spec.get("platform") or {}).get("endpoint") or spec.get("base_url") or "").rstrip("/")
    if not written:
        raise FeatureNotSupported(f"cannot ask provider '{spec.get('id', '')}': it names no endpoint on azure", hint="set platform.endpoint")
    return written.removesuffix("/v1").removesuffix("/anthropic")


def _named(spec: Spec, key: str, form: re.Pattern[str]) -> str:
    value = str((spec.get("platform") or {}).get(key) or "")
    if not form.fullmatch(value):
        cause = f"'{value}' is no {key}" if value else f"it names no {key}"
        raise FeatureNotSupported(f"cannot ask provider '{spec.get('id', '')}': {cause}", hint=f"set platform.{key}")
    return value
