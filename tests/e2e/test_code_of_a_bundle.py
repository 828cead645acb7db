"""A whole installation: the programs of one project run confined in its workers, those of another are refused."""

import json
from pathlib import Path

import pytest

from tests.e2e.installation import Namespace, serving
from tests.outside.reaching import call, unconfinable, write_bundle

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
LOOK = "import json, os\nprint(json.dumps({'result': {'state': os.path.exists(STATE), 'environment': sorted(os.environ)}}))\n"


def files(folder: Path, state: Path) -> dict[str, bytes]:
    """Return a bundle whose tool is a program that looks for the state directory and at its environment."""
    folder.mkdir()
    write_bundle(folder, {"look": {"mode": "exec", "exec": {"command": "python3", "args": ["look.py"]}}}, [call("look")])
    (folder / "look.py").write_text(f"STATE = {str(state)!r}\n{LOOK}")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_the_granted_project_runs_its_programs(tmp_path: Path) -> None:
    """`arena up --allow-code` reaches the workers of that project alone; its program sees neither the state directory nor our variables."""
    if why := unconfinable():
        pytest.skip(why)
    state = tmp_path / "state"
    with serving(state, tmp_path, "--allow-code", "team/granted") as server:
        namespace = Namespace(server, "team", tmp_path)
        bundle = files(tmp_path / "bundle", state)
        for name in ("granted", "other"):
            checkout = namespace.project(name)
            namespace.job(name, spec={"sourceRef": {"name": name}})
            checkout.commit(bundle)
            checkout.push()
        namespace.ended_run(count=2)
        granted, other = sorted(namespace.runs(), key=lambda run: str(run["metadata"]["name"]))
        assert granted["status"]["phase"] == "Succeeded", granted["status"]
        (line,) = (namespace.output(granted) / "results.jsonl").read_text().splitlines()
        (answer,) = [message["content"] for message in json.loads(line)["messages"] if message["role"] == "tool"]
        assert json.loads(answer) == {"state": False, "environment": ["HOME", "LANG", "PATH", "PWD", "TMPDIR"]}
        assert "programs of this bundle are not allowed to run" in json.dumps(other["status"])
    assert state.exists()
