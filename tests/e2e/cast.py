"""Whom a job of real models meets on loopback: a vendor with three keys, an agent, a registry's tool; and where a planted key might be found."""

import asyncio
import base64
import contextlib
import json
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconcile.cluster.port import AGENT_RUNTIME, PROVIDER, SECRET, TOOL_REGISTRY, Object
from tests.agents.scripted_agent import ScriptedAgent, chunk, done, serving
from tests.agents.scripted_agent import Step as Say
from tests.e2e.bundles import API, bundle
from tests.e2e.installation import files_below
from tests.processes import told
from tests.providers.vendor_server import Seen, Step, VendorServer, answer, vendor_server

KEYS: Mapping[str, str] = {"team": "sk-planted-of-the-team", "batch": "sk-planted-of-the-batch", "referee": "sk-planted-of-the-referee"}
"""The key of each Provider, which only its own requests may show."""

ANSWER = "Refunds are possible within 30 days."
_CONFIG = "  judges:\n    - name: strict\n      provider: the-referee\n  tools:\n    - file: tools/find.yaml\n"
FILES: Mapping[str, str] = {
    **{
        name: text.replace(
            "        - type: content_includes",
            "        - type: llm_judge\n          params:\n            criteria: polite\n        - type: content_includes",
        )
        .replace("  providers:\n", "  providers:\n    - file: providers/referee.yaml\n      group: judge\n")
        .replace("  scenarios:\n", f"{_CONFIG}  scenarios:\n" if name == "config.arena.yaml" else "  scenarios:\n")
        .replace("  system_template:", "  allowed_tools: [find]\n  system_template:")
        for name, text in bundle().items()
    },
    "providers/referee.yaml": f"apiVersion: {API}\nkind: Provider\nmetadata:\n  name: the-referee\nspec:\n  id: the-referee\n  type: mock\n  model: m\n",
    "tools/find.yaml": (
        f"apiVersion: {API}\nkind: Tool\nmetadata:\n  name: find\nspec:\n  name: find\n  description: of the file\n  mode: mock\n"
        "  input_schema:\n    type: object\n    properties:\n      order:\n        type: string\n  mock_result:\n    found: by the mock\n"
    ),
}
"""A bundle whose answers must name 30 days and please a judge, who has the id `the-referee` in the group `judge`."""


@dataclass
class Cast:
    """Who is there. `showed` are the models that each key asked for; `found` are the calls of the tool."""

    vendor: VendorServer
    agent: str
    showed: dict[str, set[str]] = field(default_factory=dict)
    found: list[Any] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    going_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, seen: Seen) -> Sequence[Step]:
        """Answer as the tool, the judge or the model that a request asks; nobody before the test lets them go on."""
        self.begun.set()
        await self.going_on.wait()
        if seen.path == "/find":
            self.found.append(seen.json)
            return [answer({"found": "by the registry"})]
        asked = seen.json
        key = seen.headers.get("Authorization", "").removeprefix("Bearer ")
        self.showed.setdefault(key, set()).add(asked["model"])
        if asked["model"] == "judge-model":
            return [answer(_completion(json.dumps({"reasoning": "It is polite.", "score": 1.0, "passed": True})))]
        if asked["model"] == "first-model" and asked["messages"][-1]["role"] != "tool":
            return [answer(_completion("", [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "7"}'}}]))]
        return [answer(_completion(ANSWER))]

    def objects(self) -> Iterator[Object]:
        """Yield the Secrets, Providers, agent and registry of a job, without a namespace."""
        for name, model in (("team", "first-model"), ("batch", "second-model"), ("referee", "judge-model")):
            yield {"apiVersion": "v1", "kind": SECRET.kind, "metadata": {"name": name}, "stringData": {"OPENAI_API_KEY": KEYS[name]}}
            spec = {"type": "openai", "model": model, "baseURL": f"{self.vendor.url}/v1", "credential": {"secretRef": {"name": name}}}
            yield {"apiVersion": PROVIDER.api_version, "kind": PROVIDER.kind, "metadata": {"name": name}, "spec": spec}
        yield {"apiVersion": AGENT_RUNTIME.api_version, "kind": AGENT_RUNTIME.kind, "metadata": {"name": "clerk"}, "spec": {"endpoint": self.agent}}
        tool = {"name": "find", "description": "Find an order.", "inputSchema": {"type": "object"}}
        handler = {"name": "finder", "type": "http", "tool": tool, "httpConfig": {"endpoint": f"{self.vendor.url}/find"}}
        yield {"apiVersion": TOOL_REGISTRY.api_version, "kind": TOOL_REGISTRY.kind, "metadata": {"name": "tools"}, "spec": {"handlers": [handler]}}


JOB: Mapping[str, Any] = {
    "providers": {
        "default": [{"providerRef": {"name": "team"}}, {"providerRef": {"name": "batch"}}, {"agentRef": {"name": "clerk"}}],
        "judge": [{"providerRef": {"name": "referee"}}],
    },
    "toolRegistries": [{"name": "tools"}],
    "verbose": True,
}
"""The settings of the job: two Providers of one vendor and an agent are tested, and a third Provider judges."""


@asynccontextmanager
async def cast() -> AsyncIterator[Cast]:
    """Let everybody be there until the block ends."""
    turns: list[list[Say]] = [[chunk(ANSWER), done()]] * 4
    async with vendor_server() as vendor, serving(ScriptedAgent(*turns).serve) as agent:
        there = Cast(vendor, agent)
        vendor.answering = there.answer
        yield there


def _completion(text: str, calls: Sequence[Mapping[str, Any]] = ()) -> Mapping[str, Any]:
    message = {"role": "assistant", "content": text or None, **({"tool_calls": list(calls)} if calls else {})}
    return {
        "id": "r",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
    }


def planted_in(text: bytes | str) -> list[str]:
    """Return whose keys a text holds, as they are or as a Secret has them."""
    data = text if isinstance(text, bytes) else text.encode()
    return [name for name, key in KEYS.items() if key.encode() in data or base64.b64encode(key.encode()) in data]


def planted_in_files(folder: Path) -> set[str]:
    """Return the names of the files below a folder that hold a key; others may work in it meanwhile."""
    found = set()
    for path in files_below(folder):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(path.lstat().st_mode) and planted_in(path.read_bytes()):
                found.add(path.name)
    return found


def planted_in_process_list() -> list[str]:
    """Return the command lines of this machine that hold a key."""
    return [words.decode("utf-8", "replace") for _, words in told("cmdline") if planted_in(words)]
