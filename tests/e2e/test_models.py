"""A job of real models on a real `arena up`: two Providers of one vendor, an agent, a judge and a registry's tool, all on loopback."""

import asyncio
import json

import pytest

from reconcile.cluster.port import KINDS, SECRET
from tests.e2e.cast import ANSWER, FILES, JOB, KEYS, cast, planted_in, planted_in_files, planted_in_process_list
from tests.e2e.installation import Namespace, ready, until

pytestmark = pytest.mark.e2e


async def test_two_providers_an_agent_and_a_judge(namespace: Namespace) -> None:
    """Each model is asked with its own key, the agent over its socket, the judge judges all; and no key is anywhere but in its Secret and its worker."""
    async with cast() as there:
        checkout = namespace.project()
        checkout.commit(FILES)
        assert checkout.push().code == 0
        for obj in there.objects():
            namespace.client.create(KINDS[obj["kind"]], namespace.name, obj)
        await asyncio.to_thread(until, lambda: _is_discovered(namespace), "the status of the neighbours")
        namespace.job(spec=dict(JOB))
        await asyncio.wait_for(there.begun.wait(), 60)
        assert planted_in_process_list() == []
        there.going_on.set()
        run = await asyncio.to_thread(namespace.ended_run)
    assert run["status"]["phase"] == "Succeeded", ready(run)
    assert run["status"]["plan"]["items"] == 3
    assert there.showed == {KEYS["team"]: {"first-model"}, KEYS["batch"]: {"second-model"}, KEYS["referee"]: {"judge-model"}}
    assert there.found == [{"order": "7"}]
    lines = [json.loads(line) for line in (namespace.output(run) / "results.jsonl").read_text().splitlines()]
    assert [line["provider"] for line in lines] == ["team", "batch", "clerk"]
    assert {line["messages"][-1]["content"] for line in lines} == {ANSWER}
    assert all(check["passed"] for line in lines for check in line["checks"]["results"])
    _expect_no_key(namespace)


def _is_discovered(namespace: Namespace) -> bool:
    phases = [namespace.client.list(KINDS[kind], namespace.name)["items"] for kind in ("Provider", "AgentRuntime", "ToolRegistry")]
    return {(obj.get("status") or {}).get("phase") for objects in phases for obj in objects} == {"Ready", "Running"}


def _expect_no_key(namespace: Namespace) -> None:
    """Look at every object but Secrets, and at every file of the installation but the store, where Secrets are kept."""
    for kind in (kind for kind in KINDS.values() if kind is not SECRET and kind.namespaced):
        assert planted_in(json.dumps(namespace.client.list(kind, namespace.name))) == [], kind
    store = namespace.server.state.database.name
    found = planted_in_files(namespace.server.state.root)
    assert found, "the store's own file has the Secrets"
    assert all(name.startswith(store) for name in found), found
    assert planted_in(namespace.server.stderr) == []


def test_a_missing_key_fails_the_run_by_name(namespace: Namespace) -> None:
    """A bundle's own provider whose key no worker has ends the run before its first item, naming provider and variable."""
    checkout = namespace.project()
    files = {**FILES, "providers/model.yaml": FILES["providers/model.yaml"].replace("type: mock", "type: openai")}
    checkout.commit(files)
    checkout.push()
    namespace.job()
    run = namespace.ended_run()
    reason, message = ready(run)
    assert (run["status"]["phase"], reason) == ("Failed", "CredentialMissing"), message
    assert "provider 'model'" in message
    assert "OPENAI_API_KEY" in message
    assert run["status"]["result"]["summary"]["totalItems"] == "0"
