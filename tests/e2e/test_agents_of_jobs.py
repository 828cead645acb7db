"""Jobs whose providers are agents, in a whole installation."""

import json
from pathlib import Path

import pytest

from engine.bundle.starter import starter_files
from reconcile.cluster.port import AGENT_RUNTIME
from tests.agents.clients import serving_command, write_starter
from tests.e2e.installation import Namespace, until

pytestmark = pytest.mark.e2e


def _runtime(namespace: Namespace, name: str, endpoint: str, phase: str) -> None:
    """Create an agent and wait until its status says so."""
    namespace.client.create(AGENT_RUNTIME, namespace.name, {"metadata": {"name": name}, "spec": {"endpoint": endpoint} if endpoint else {}})
    until(
        lambda: (namespace.client.get(AGENT_RUNTIME, namespace.name, name).get("status") or {}).get("phase") == phase, f"agent {name} to be {phase}"
    )


def test_a_job_tests_an_agent_beside_one_that_is_not_there(namespace: Namespace, tmp_path: Path) -> None:
    """The agent's items pass as its model's would; those of one that is not running are errors with the reason, and nothing fails."""
    checkout = namespace.project()
    checkout.commit(starter_files())
    assert checkout.push().code == 0
    options = (str(write_starter(tmp_path / "bundle")), "--scenario", "order-status", "--provider", "steady")
    with serving_command(*options) as (_, address):
        _runtime(namespace, "clerk", address.removeprefix("ws://").removesuffix("/ws"), "Running")
        _runtime(namespace, "sleeper", "", "Pending")
        providers = {"default": [{"agentRef": {"name": "clerk"}}, {"agentRef": {"name": "sleeper"}}]}
        namespace.job(spec={"providers": providers, "trials": 1, "scenarios": {"include": ["order-status"]}})
        run = namespace.ended_run()
    found = json.loads((namespace.output(run) / "summary.json").read_bytes())
    counted = {each["provider"]: (each["items"], each["passed"], each["failed"], each["errors"]) for each in found["providers"]}
    assert counted == {"clerk": (2, 2, 0, 0), "sleeper": (2, 0, 0, 2)}
    assert {(error["kind"], error["message"]) for error in found["errors"]} == {
        ("provider.unavailable", "cannot ask agent 'sleeper': AgentRuntime 'sleeper' is Pending")
    }
