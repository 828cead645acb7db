"""What the operator of an installation lets a bundle do beyond talking to models: run code of its own, reach private addresses.

Comes from whoever starts the program, travels in the plan, and never from a bundle or a job. Must not know how any of it is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final, Literal

from foundation.addresses import AddressPolicy

Code = Literal["", "confined", "unconfined"]

ALLOWING_CODE: Final = "an operator may allow them: `arena up --allow-code NAMESPACE/PROJECT`, or `arena eval --allow-code`"
"""The remedy where programs are needed and not allowed."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the bundle of one run may do.

    `code` says whether its programs run: not at all (""), confined or refused (`confined`), or confined where that works and bare elsewhere
    (`unconfined`). `code_network` lets them use the network. `networks` are private ones, as CIDR, that its HTTP tools, agents and servers may be in.
    """

    code: Code = ""
    code_network: bool = False
    networks: tuple[str, ...] = ()

    @property
    def addresses(self) -> AddressPolicy:
        """Return which addresses may be reached."""
        return AddressPolicy(tuple(ip_network(network) for network in self.networks))

    def to_json(self) -> dict[str, Any]:
        """Return these as a plan carries them."""
        return {"code": self.code, "codeNetwork": self.code_network, "networks": list(self.networks)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Permissions":
        """Read what `to_json` wrote."""
        return cls(content["code"], content["codeNetwork"], tuple(content["networks"]))


NO_PERMISSIONS = Permissions()


@dataclass(frozen=True, slots=True)
class Grants:
    """What an operator lets the projects of an installation do. Projects are `namespace/project`; each later set implies the first."""

    code: frozenset[str] = frozenset()
    code_network: frozenset[str] = frozenset()
    code_unconfined: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()

    def of(self, namespace: str, project: str) -> Permissions:
        """Return what the bundle of a project may do."""
        name = f"{namespace}/{project}"
        allowed = name in self.code | self.code_network
        code: Code = "unconfined" if name in self.code_unconfined else "confined" if allowed else ""
        return Permissions(code, name in self.code_network, self.networks)


NO_GRANTS = Grants()
