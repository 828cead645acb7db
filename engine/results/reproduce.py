"""The command that holds one item's conversation again, or all of them, on a checkout of its commit."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.items import EVAL_PROVIDER, Item
from engine.permissions import Permissions

if TYPE_CHECKING:
    from engine.results.summary import PlanView

_DEFAULT_ARENA_FILE = "config.arena.yaml"


def reproduce_command(plan: "PlanView", item: Item) -> str:
    """Return the `arena eval` command, quoted for a POSIX shell, that runs `item`'s scenario and provider in the bundle's directory; "" when a job brought the models, which no checkout has.

    It lets the bundle do what the run let it do. An eval has no provider to name.
    """
    if not plan.own_providers:
        return ""
    return shlex.join([*_beginning(plan), *_choosing(item.scenario, item.provider, item.trial), *_manner(plan)])


def repeat_command(plan: "PlanView") -> str:
    """Return the command that runs everything again, "" when no checkout can; `of_item` chooses of it."""
    if not plan.own_providers:
        return ""
    return shlex.join([*_beginning(plan), *_manner(plan)])


def of_item(command: str, item: Mapping[str, Any]) -> str:
    """Return what `repeat_command` returned, for one item of results.jsonl alone."""
    return f"{command} {shlex.join(_choosing(item['scenario'], item['provider'], item['trial']))}"


def _beginning(plan: "PlanView") -> list[str]:
    return ["arena", "eval", "." if plan.arena_file == _DEFAULT_ARENA_FILE else plan.arena_file]


def _choosing(scenario: str, provider: str, trial: int) -> list[str]:
    words = ["--scenario", scenario]
    if provider != EVAL_PROVIDER:
        words += ["--provider", provider]
    return [*words, "--trials", str(trial)] if trial > 1 else words


def _manner(plan: "PlanView") -> list[str]:
    words = []
    if plan.mocked is not None:
        words.append("--mock-provider")
        if plan.mocked.config:
            words += ["--mock-config", plan.mocked.config]
    return words + _permitting(plan.permissions)


def _permitting(permissions: Permissions) -> list[str]:
    words = ["--allow-code"] if permissions.code else []
    if permissions.code_network:
        words.append("--allow-code-network")
    if permissions.code == "unconfined":
        words.append("--allow-code-unconfined")
    for network in permissions.networks:
        words += ["--allow-network", network]
    return words
