"""The command that holds one item's conversation again, on a checkout of its commit."""

import shlex

from engine.items import EVAL_PROVIDER, Item
from engine.permissions import Permissions
from engine.results.summary import PlanView

_DEFAULT_ARENA_FILE = "config.arena.yaml"


def reproduce_command(plan: PlanView, item: Item) -> str:
    """Return the `arena eval` command, quoted for a POSIX shell, that runs `item`'s scenario and provider in the bundle's directory.

    It lets the bundle do what the run let it do. An eval has no provider to name.
    """
    path = "." if plan.arena_file == _DEFAULT_ARENA_FILE else plan.arena_file
    words = ["arena", "eval", path, "--scenario", item.scenario]
    if item.provider != EVAL_PROVIDER:
        words += ["--provider", item.provider]
    if item.trial > 1:
        words += ["--trials", str(item.trial)]
    if plan.mocked is not None:
        words.append("--mock-provider")
        if plan.mocked.config:
            words += ["--mock-config", plan.mocked.config]
    return shlex.join(words + _permitting(plan.permissions))


def _permitting(permissions: Permissions) -> list[str]:
    words = ["--allow-code"] if permissions.code else []
    if permissions.code_network:
        words.append("--allow-code-network")
    if permissions.code == "unconfined":
        words.append("--allow-code-unconfined")
    for network in permissions.networks:
        words += ["--allow-network", network]
    return words
