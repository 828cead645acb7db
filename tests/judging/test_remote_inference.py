"""Classifiers and embedding models behind vendors' protocols: what checks of a whole item make of their answers, and what that costs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.bundle import check_supported
from engine.bundle.loader import load_bundle
from engine.checks.questions import LabelQuestion
from engine.conversation import ItemRunner
from engine.errors import ProviderError
from engine.items import ItemResult, Usage, Verdict
from engine.judging.remote_inference import RemoteInference
from engine.permissions import Permissions
from engine.plan import PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from engine.providers.ledger import Ledger
from engine.providers.messages import Message
from engine.providers.port import Reply, Request
from foundation.clock import SystemClock
from tests.providers.vendor_server import Seen, Step, VendorServer, answer, vendor_server

SAID = {
    "type": "message",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "Your order has shipped"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 30, "output_tokens": 6},
}
VECTORS = {"Your order has shipped": [1.0, 0.0], "It is on its way": [0.8, 0.6]}


@pytest.fixture
async def vendors() -> AsyncIterator[VendorServer]:
    """Run a server that stands for all vendors, each at its path."""
    async with vendor_server() as running:
        running.answering = answering
        yield running


def answering(seen: Seen) -> tuple[Step, ...]:
    """Answer a request by its path."""
    match seen.path:
        case "/claude/messages":
            return (answer(SAID),)
        case "/openai/embeddings":
            data = [{"index": place, "embedding": VECTORS[text]} for place, text in enumerate(seen.json["input"])]
            return (answer({"data": data, "usage": {"prompt_tokens": 500_000}}),)
        case "/hf/unitary/toxic-bert":
            return (answer([[{"label": "toxic", "score": 0.01}, {"label": "neutral", "score": 0.99}]]),)
        case _:
            return (answer({"error": "Authorization header is invalid"}, 401),)


def write(root: Path, url: str, **checker: Any) -> None:
    """Write a bundle whose model is Claude, and whose checks ask an embedding model and a classifier."""
    checks = [
        {"type": "cosine_similarity", "params": {"reference": "It is on its way", "min_similarity": 0.7}},
        {"type": "text_toxicity", "params": {"expected_label": "neutral", "model": "unitary/toxic-bert", "min_score": 0.9}},
    ]
    scenario = {"task_type": "t", "description": "d", "turns": [{"role": "user", "content": "Where is it?", "assertions": checks}]}
    key = {"credential": {"credential_env": "KEY"}}
    providers = {
        "c": {"type": "claude", "model": "claude-haiku-4-5", "base_url": f"{url}/claude", **key},
        "e": {"type": "openai", "role": "embedding", "model": "text-embedding-3-small", "base_url": f"{url}/openai", **key},
        "h": {"type": "huggingface", "role": "inference", "base_url": f"{url}/hf", **key} | checker,
    }
    arena = {
        "prompt_configs": [{"id": "p", "file": "prompt.yaml"}],
        "providers": [{"file": f"{name}.yaml"} for name in providers],
        "scenarios": [{"file": "scenario.yaml"}],
        "defaults": {},
    }
    prompt = {"task_type": "t", "version": "v1", "description": "d", "system_template": "Be kind."}
    files = {"config.arena": ("Arena", arena), "prompt": ("PromptConfig", prompt), "scenario": ("Scenario", scenario)}
    for name, (kind, spec) in {**files, **{name: ("Provider", spec) for name, spec in providers.items()}}.items():
        manifest = {"apiVersion": "promptkit.altairalabs.ai/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        (root / f"{name}.yaml").write_text(yaml.safe_dump(manifest))


async def held(root: Path) -> ItemResult:
    """Run the bundle's one item; loopback is allowed, as an operator would."""
    bundle = load_bundle(root)
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(permissions=Permissions(networks=("127.0.0.0/8",))))
    check_supported(bundle, plan)
    runner = ItemRunner(bundle, plan, SystemClock(), Connections({"KEY": "secret-key-1"}))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


async def test_checks_ask_real_models(vendors: VendorServer, tmp_path: Path) -> None:
    """Likeness and labels are the models', each asked at its vendor with its own model; what they cost is the judges' cost of the item."""
    write(tmp_path, vendors.url)
    result = await held(tmp_path)
    assert (result.verdict, result.error) == (Verdict.PASS, None)
    assert [(check.type, check.score) for check in result.checks] == [("cosine_similarity", 1.0), ("text_toxicity", 0.99)]
    assert {seen.path for seen in vendors.requests} == {"/claude/messages", "/openai/embeddings", "/hf/unitary/toxic-bert"}
    assert result.usage.input_tokens == 30
    assert result.judges.cost_usd == pytest.approx(0.01)


async def test_a_classifier_that_does_not_answer_is_no_score(vendors: VendorServer, tmp_path: Path) -> None:
    """An item whose classifier refuses our key is an error, and neither passes nor fails."""
    write(tmp_path, vendors.url, base_url=f"{vendors.url}/nowhere")
    result = await held(tmp_path)
    assert result.verdict is Verdict.ERROR
    assert result.error is not None
    assert "Authorization header is invalid" in result.error.message
    assert "secret-key-1" not in str(result)


class Answering:
    """A provider that gives one reply."""

    always_streams = False

    def __init__(self, **meta: Any) -> None:
        self.requests: list[Request] = []
        self._reply = Reply("", usage=Usage(7), cost_usd=0.5, meta=meta)

    async def complete(self, request: Request) -> Reply:
        """Keep the request."""
        self.requests.append(request)
        return self._reply


def remote(provider: Answering) -> RemoteInference:
    """Return what asks a provider."""
    return RemoteInference(provider)  # type: ignore[arg-type]


async def test_blank_texts_are_not_sent() -> None:
    """A blank text, which models refuse, is like nothing; a call is charged once."""
    costs, provider = Ledger(), Answering(embeddings=[[1.0, 0.0], [0.0, 1.0]])
    assert await remote(provider).embed(["a", " ", "b"], costs.charge) == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert provider.requests[0].messages == [Message("user", "a"), Message("user", "b")]
    assert (costs.usage, costs.cost_usd) == (Usage(7), 0.5)
    assert await remote(provider).embed([" "], costs.charge) == [[0.0]]
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "vectors",
    [pytest.param([[1.0]], id="too few"), pytest.param([[1.0], [1.0, 2.0]], id="of two lengths"), pytest.param([[1.0]] * 3, id="too many")],
)
async def test_vectors_must_fit_the_texts(vectors: list[list[float]]) -> None:
    """An answer that does not fit its question is an error that may pass."""
    with pytest.raises(ProviderError, match="one vector of one length for each text") as unreadable:
        await remote(Answering(embeddings=vectors)).embed(["a", "b"], Ledger().charge)
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


async def test_who_embeds_does_not_label() -> None:
    """A provider of the other kind is named as such."""
    with pytest.raises(ProviderError, match="the provider embeds"):
        await remote(Answering(embeddings=[[1.0]])).labels(LabelQuestion("text", "x", "m", text="a"), Ledger().charge)
    with pytest.raises(ProviderError, match="the provider labels"):
        await remote(Answering(labels={"x": 1.0})).embed(["a"], Ledger().charge)
