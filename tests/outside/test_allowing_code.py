"""How a person lets programs of a bundle run: the switches of `arena eval` and the projects of `arena up`."""

import json
from pathlib import Path

import pytest

import arena.cli
from arena.cli.options import grants
from arena.errors import UsageError
from engine.permissions import Grants, Permissions
from tests.outside.reaching import call, write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the folder of a bundle whose tool is a program."""
    (tmp_path / "t.py").write_text('print(\'{"result": "ran"}\')\n')
    write_bundle(tmp_path, {"t": {"mode": "exec", "exec": {"command": "python3", "args": ["t.py"]}}}, [call("t")])
    return tmp_path


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize(
    ("switches", "code"),
    [([], 2), (["--allow-code"], 0), (["--allow-code-network"], 0), (["--allow-code-unconfined"], 0)],
    ids=str,
)
def test_eval(bundle: Path, switches: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """`arena eval` runs a bundle's programs only with a switch; without one it says which."""
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(bundle), "-o", "json", *switches])
    said = capsys.readouterr()
    assert ended.value.code == code
    if code:
        assert "--allow-code" in said.err
    else:
        assert "ran" in json.dumps(json.loads(said.out)["items"][0]["messages"])


@pytest.mark.parametrize("name", ["support", "a/b/c", "/b", "a/"])
def test_a_grant_names_a_project(name: str) -> None:
    """What is no NAMESPACE/PROJECT is a usage error, not a grant of nothing."""
    with pytest.raises(UsageError, match="is not NAMESPACE/PROJECT"):
        grants([name], None, None, None)


def test_grants_of_options() -> None:
    """Each option names projects, and networks are theirs all."""
    assert grants(["a/b"], ["a/c"], None, ["10.0.0.0/8"]) == Grants(frozenset(("a/b",)), frozenset(("a/c",)), frozenset(), ("10.0.0.0/8",))


def test_permissions_travel_as_json() -> None:
    """A plan gives back the permissions that were put into it."""
    permissions = Permissions("confined", code_network=True, networks=("10.0.0.0/8",))
    assert Permissions.from_json(json.loads(json.dumps(permissions.to_json()))) == permissions
