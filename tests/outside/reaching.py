"""Bundles that reach outside, written to disk and held; and how their results are read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle
from engine.bundle.supported import check_supported
from engine.conversation import ItemRunner
from engine.items import ItemResult
from engine.permissions import Permissions
from engine.plan import PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from engine.tools.processes import CodeRefused, Confinement
from foundation.clock import SystemClock

LOOPBACK = ("127.0.0.0/8",)
CONFINED = Permissions("confined", networks=LOOPBACK)
Hold = Callable[..., Awaitable[ItemResult]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[..., Awaitable[str]]
WriteProgram = Callable[[str, str], None]


def write_bundle(root: Path, tools: Mapping[str, Mapping[str, Any]], calls: Sequence[dict[str, Any] | list[dict[str, Any]]], **more: Any) -> Bundle:
    """Write a bundle whose model makes `calls`, one a reply (a list: all in one reply), and then says `done`; `more` adds to the arena's spec, `checks` to the conversation's."""
    checks, allowed = more.pop("checks", []), more.pop("allowed", list(tools))
    replies = {number: {"tool_calls": call if isinstance(call, list) else [call]} for number, call in enumerate(calls, 1)} | {len(calls) + 1: "done"}
    _write(root / "mock.yaml", {"scenarios": {"s": {"turns": replies}}})
    _manifest(root / "provider.yaml", "Provider", "m", {"type": "mock", "additional_config": {"mock_config": "mock.yaml"}})
    _manifest(root / "prompt.yaml", "PromptConfig", "p", {"task_type": "t", "system_template": "Be kind.", "allowed_tools": allowed})
    scenario = {"task_type": "t", "turns": [{"role": "user", "content": "go"}], "conversation_assertions": checks}
    _manifest(root / "scenario.yaml", "Scenario", "s", scenario)
    spec = {
        "prompt_configs": [{"id": "p", "file": "prompt.yaml"}],
        "providers": [{"file": "provider.yaml"}],
        "scenarios": [{"file": "scenario.yaml"}],
        "tool_specs": {name: {"description": "d", "input_schema": {"type": "object"}} | dict(tool) for name, tool in tools.items()},
    }
    _manifest(root / "config.arena.yaml", "Arena", "a", spec | more)
    return load_bundle(root)


async def run_first(bundle: Bundle, permissions: Permissions, environment: Mapping[str, str]) -> ItemResult:
    """Run the first item of a bundle."""
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(permissions=permissions))
    check_supported(bundle, plan)
    runner = ItemRunner(bundle, plan, SystemClock(), Connections(environment))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


@cache
def unconfinable() -> str:
    """Return why no program can be confined on this machine, "" when it can."""
    try:
        asyncio.run(Confinement(Path("/usr"), Permissions("confined")).check())
    except CodeRefused as refused:
        return refused.message
    return ""


def results_of(result: ItemResult) -> list[str]:
    """Return what the tools answered, in order."""
    return [message["content"] for message in result.messages if message["role"] == "tool"]


def parts_of(result: ItemResult) -> list[dict[str, Any]]:
    """Return the parts of the tools' answers, in order."""
    return [part for message in result.messages if message["role"] == "tool" for part in message["toolResult"].get("parts", [])]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call as a mock makes it."""
    return {"name": name, "arguments": arguments}


def _manifest(path: Path, kind: str, name: str, spec: Mapping[str, Any]) -> None:
    _write(path, {"apiVersion": "promptkit.altairalabs.ai/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)})


def _write(path: Path, content: Any) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
