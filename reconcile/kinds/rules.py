"""Rules that no type can state: exactly-one, together-with, immutable, set once.

Each is written twice, side by side: as CEL for the API server, and as a predicate for local mode. `rules_of` is the one list of both;
tests/kinds/test_rules.py exercises every predicate both ways. Rules of Provider stand in `provider_rules`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import re2

from reconcile.kinds.provider_rules import PROVIDER_RULES
from reconcile.kinds.quantities import parse_duration
from reconcile.kinds.rule import Rule, count_of

SHORTEST_POLL: Final = timedelta(seconds=10)
HTTPS_URL: Final = r"^https://[^/?#@\s]+(/[^?#\s]*)?$"
CREDENTIALS_IN_URL: Final = r"^[A-Za-z][A-Za-z0-9+.-]*://[^/]*@"

_Value = Mapping[str, Any]


def _unchanged(value: object, old: object) -> bool:
    return value == old


def _keeps_kind(value: _Value, old: _Value) -> bool:
    return ("hosted" in value) == ("hosted" in old)


def _polls_slowly(value: str, _old: object) -> bool:
    try:
        return parse_duration(value) >= SHORTEST_POLL
    except ValueError:
        return False


def _has_block_of_type(value: _Value, _old: object) -> bool:
    return value.get("type") in value


def _status(obj: _Value) -> _Value:
    return obj.get("status") or {}


def _set_once(field: str, what: str) -> Rule:
    def keeps(value: _Value, old: _Value) -> bool:
        before = _status(old).get(field)
        return before is None or _status(value).get(field) == before

    return Rule(
        scope="",
        cel=(
            f"!has(oldSelf.status) || !has(oldSelf.status.{field}) || "
            f"(has(self.status) && has(self.status.{field}) && self.status.{field} == oldSelf.status.{field})"
        ),
        message=f"status.{field} is set once: {what} of a run never changes",
        holds=keeps,
        is_transition=True,
    )


def _immutable(scope: str, message: str, *, cel: str = "self == oldSelf", holds: Callable[[Any, Any], bool] = _unchanged) -> Rule:
    return Rule(scope=scope, cel=cel, message=message, holds=holds, is_transition=True)


JOB_SPEC_RULES: Final = (
    Rule(
        scope="spec.output",
        cel="self.type == 's3' ? has(self.s3) : has(self.pvc)",
        message="output needs the block that its type names: s3 for type s3, pvc for type pvc",
        holds=_has_block_of_type,
    ),
    Rule(
        scope="spec.loadTest",
        cel="!has(self.budgetLimit)",
        message="loadTest.budgetLimit has been removed and would cap nothing: move the value to spec.budgetLimit",
        holds=lambda value, _old: "budgetLimit" not in value,
        field="budgetLimit",
    ),
    Rule(
        scope="spec.baseline",
        cel="has(self.ref) != has(self.run)",
        message="baseline names exactly one of ref and run",
        holds=lambda value, _old: count_of(value, "ref", "run") == 1,
    ),
)

PROJECT_RULES: Final = (
    Rule(
        scope="spec",
        cel="has(self.hosted) != has(self.external)",
        message="a project has exactly one of hosted and external",
        holds=lambda value, _old: count_of(value, "hosted", "external") == 1,
    ),
    _immutable(
        "spec",
        "a project stays hosted or external: create another project instead",
        cel="has(self.hosted) == has(oldSelf.hosted)",
        holds=_keeps_kind,
    ),
    _immutable("spec.hosted.objectFormat", "the hash of a repository cannot be changed: create another project instead"),
    Rule(
        scope="spec.external.url",
        cel="self.startsWith('https://')",
        message="only https remotes are mirrored: write https://host/path",
        holds=lambda value, _old: value.startswith("https://"),
    ),
    Rule(
        scope="spec.external.url",
        cel=f"!self.matches(r'{CREDENTIALS_IN_URL}')",
        message="a URL must not hold credentials: put them in a Secret and name it in secretRef",
        holds=lambda value, _old: re2.search(CREDENTIALS_IN_URL, value) is None,
    ),
    Rule(
        scope="spec.external.url",
        cel=f"!self.startsWith('https://') || self.matches(r'{CREDENTIALS_IN_URL}') || self.matches(r'{HTTPS_URL}')",
        message="not a URL of a git remote: write https://host/path, without spaces, query or fragment",
        holds=lambda value, _old: (
            not value.startswith("https://") or re2.search(CREDENTIALS_IN_URL, value) is not None or re2.search(HTTPS_URL, value) is not None
        ),
    ),
    Rule(
        scope="spec.external.pollInterval",
        cel="duration(self) >= duration('10s')",
        message="a remote is polled every 10s at most often: raise pollInterval",
        holds=_polls_slowly,
    ),
)

RUN_RULES: Final = (
    _immutable("spec.template", "a run's template is frozen: change the job and start another run"),
    _immutable("spec.jobRef", "a run's job cannot be changed"),
    _immutable("spec.trigger", "a run's trigger cannot be changed"),
    _set_once("source", "the commit"),
    _set_once("queue", "the queue"),
    _set_once("plan", "the plan"),
    _set_once("workers", "the number of workers"),
)

WORKSPACE_RULES: Final = (
    Rule(
        scope="spec.services[*].redis",
        cel="[has(self.existingSecret), has(self.url), has(self.host), has(self.serviceRef)].exists_one(given, given)",
        message="redis has exactly one of existingSecret, url, host and serviceRef",
        holds=lambda value, _old: count_of(value, "existingSecret", "url", "host", "serviceRef") == 1,
    ),
)

_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "ArenaProject": PROJECT_RULES,
    "ArenaJob": JOB_SPEC_RULES,
    "ArenaRun": (*RUN_RULES, *(replace(rule, scope=rule.scope.replace("spec", "spec.template", 1)) for rule in JOB_SPEC_RULES)),
    "Provider": PROVIDER_RULES,
    "Workspace": WORKSPACE_RULES,
}


def rules_of(kind: str) -> tuple[Rule, ...]:
    """Return the rules of a kind, those of outer values first."""
    return _RULES.get(kind, ())
