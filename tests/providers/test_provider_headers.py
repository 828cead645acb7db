"""What a provider's headers may hold: the same in a bundle's Provider file and in a job's Provider."""

from pathlib import Path
from typing import Any

import pytest

from engine.bundle import load_bundle
from engine.errors import BundleInvalid
from engine.plan import PlanRequest, make_plan
from engine.providers.headers import header_fault, is_credential
from reconcile.errors import Invalid
from reconcile.kinds.admission import admit
from reconcile.provider_spec import ProviderUnreadable, provider_spec

ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompt.yaml}]
  providers: [{file: provider.yaml}]
  scenarios: [{file: scenario.yaml}]
"""
FILES = {
    "config.arena.yaml": ARENA,
    "prompt.yaml": "kind: PromptConfig\nmetadata: {name: assistant}\nspec: {task_type: assistant, system_template: x}\n",
    "scenario.yaml": "kind: Scenario\nmetadata: {name: s}\nspec: {task_type: assistant, turns: [{role: user, content: Hi}]}\n",
}
SECRET = "planted-9c41"


def bundle_of(root: Path, headers: str) -> Path:
    """Write a bundle whose provider has these headers."""
    provider = f"kind: Provider\nmetadata: {{name: gpt}}\nspec:\n  type: openai\n  model: gpt-5\n  headers: {headers}\n"
    for name, text in {**FILES, "provider.yaml": provider}.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


def provider(headers: Any) -> dict[str, Any]:
    """Return a Provider with these headers."""
    metadata = {"name": "gpt", "namespace": "default"}
    spec = {"type": "openai", "model": "gpt-5", "headers": headers}
    return {"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider", "metadata": metadata, "spec": spec}


FAULTS = [
    pytest.param("Host", "a", "it is not a provider's to set", id="host"),
    pytest.param("content-length", "1", "it is not a provider's to set", id="content-length"),
    pytest.param("Transfer-Encoding", "chunked", "it is not a provider's to set", id="transfer-encoding"),
    pytest.param("connection", "close", "it is not a provider's to set", id="connection"),
    pytest.param("", "a", "it is not the name of a header", id="no name"),
    pytest.param("X Team", "a", "it is not the name of a header", id="a space in the name"),
    pytest.param("X-Team", "a\r\nX-Other: b", "its value holds line breaks or other control characters", id="a line break"),
]


@pytest.mark.parametrize(("name", "value", "fault"), FAULTS)
def test_a_header_that_cannot_be_sent(tmp_path: Path, name: str, value: str, fault: str) -> None:
    """It is refused where it is written, with one cause: by admission, by a run that reads the object, and by the bundle's reader."""
    assert header_fault(name, value) == fault
    with pytest.raises(Invalid) as refused:
        admit("Provider", provider({name: value}), None)
    assert (refused.value.errors[0].path, refused.value.errors[0].message) == (
        f"spec.headers[{name}]",
        f"Invalid value: cannot send this header: {fault}",
    )
    with pytest.raises(ProviderUnreadable, match=fault):
        provider_spec("gpt", provider({name: value})["spec"], 0)
    written = value.replace("\r", "\\r").replace("\n", "\\n")
    with pytest.raises(BundleInvalid, match=fault):
        load_bundle(bundle_of(tmp_path, f'{{"{name}": "{written}"}}'))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(pytest.param(name, "x", True, id=name) for name in ("Authorization", "x-api-key", "api-key", "apikey", "x-goog-api-key", "Cookie")),
        *(pytest.param(name, "x", True, id=name) for name in ("Proxy-Authorization", "Ocp-Apim-Subscription-Key", "X-Auth-Token", "Helicone-Auth")),
        *(pytest.param(name, "x", True, id=name) for name in ("x-amz-security-token", "CF-Access-Client-Secret", "x-functions-key")),
        pytest.param("X-Forwarded", "Bearer abc", True, id="a value with a scheme"),
        *(pytest.param(name, "x", False, id=name) for name in ("X-Team", "anthropic-beta", "OpenAI-Organization", "X-Title", "HTTP-Referer")),
        *(pytest.param(name, "x", False, id=name) for name in ("idempotency-key", "x-max-tokens", "X-Tokenizer", "X-Author")),
        pytest.param("X-Note", "basic", False, id="a word that is a scheme elsewhere"),
    ],
)
def test_what_looks_like_a_credential(name: str, value: str, *, expected: bool) -> None:
    """A name tells, in any spelling, or a value with a scheme; what vendors take beside credentials does not look like one."""
    assert is_credential(name, value) is expected


def test_a_credential_in_a_providers_headers_is_refused() -> None:
    """Admission and a run refuse it by its name, with the remedy, and never repeat it."""
    given = provider({"X-Team": "a", "Authorization": f"Bearer {SECRET}"})
    with pytest.raises(Invalid) as refused:
        admit("Provider", given, None)
    with pytest.raises(ProviderUnreadable) as unreadable:
        provider_spec("gpt", given["spec"], 0)
    for said in (refused.value.message, str(unreadable.value)):
        assert "spec.headers[Authorization]" in said
        assert "credential.secretRef" in said
        assert SECRET not in said


def test_a_credential_in_a_bundles_headers_is_not_sent(tmp_path: Path) -> None:
    """The format takes such a header, so the bundle loads; it stands in no plan, and a warning says so."""
    bundle = load_bundle(bundle_of(tmp_path, f"{{X-Team: a, X-Api-Key: {SECRET}}}"))
    plan = make_plan(bundle, PlanRequest())
    assert plan.providers["gpt"]["headers"] == {"X-Team": "a"}
    assert SECRET.encode() not in plan.to_bytes()
    assert SECRET not in repr(bundle)
    (warning,) = bundle.warnings
    assert warning.startswith("provider.yaml:6: header 'X-Api-Key' looks like a credential")
    assert warning.endswith("it is not sent")


@pytest.mark.parametrize("headers", [["a"], "a", {"a": None}, {"a": 1}])
def test_headers_of_another_products_object(headers: object) -> None:
    """An object that nobody admitted may hold anything: it is refused by its field."""
    with pytest.raises(ProviderUnreadable, match=r"^spec\.headers"):
        provider_spec("gpt", {"type": "openai", "model": "m", "headers": headers}, 0)
