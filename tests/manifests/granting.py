"""What RBAC grants to accounts, read from manifests as a cluster would. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.apiserver.audit import Asked

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource. `namespace` "" is everywhere; `name` "" is any."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return it as a person would say it."""
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.name}".rstrip() + (f" in {self.namespace}" if self.namespace else "")

    def covers(self, asked: Asked) -> bool:
        """Say whether it allows what was asked for."""
        return (
            (self.verb, self.group, self.resource) == (asked.verb, asked.group, asked.resource)
            and self.namespace in ("", asked.namespace)
            and self.name in ("", asked.name)
        )


def granted(objects: Sequence[Object], account: str) -> frozenset[Grant]:
    """Return what the roles and bindings among objects grant to an account of the namespace arena-system."""
    roles = {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects if obj["kind"].endswith("Role")}
    found: set[Grant] = set()
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        subjects = [(subject["kind"], subject["namespace"], subject["name"]) for subject in binding["subjects"]]
        if ("ServiceAccount", "arena-system", account) in subjects:
            namespace, reference = binding["metadata"].get("namespace", ""), binding["roleRef"]
            role = roles[reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"]]
            found |= {grant for rule in role["rules"] for grant in _grants(rule, namespace)}
    return frozenset(found)


def _grants(rule: Mapping[str, Any], namespace: str) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Grant(verb, group, resource, namespace, name)
