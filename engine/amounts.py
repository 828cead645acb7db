"""Amounts of money as people read them. Pure; machines get the numbers."""

from typing import Final

_LEAST_SHOWN: Final = 0.0001
"""The last digit that is shown."""


def dollars(figure: float) -> str:
    """Return an amount with four digits, <0.0001 where they would show nothing of it: what little costs is not free."""
    return "<0.0001" if 0 < figure < _LEAST_SHOWN else f"{figure:.4f}"


def cost_text(cost_usd: float | None, *, is_partial: bool = False) -> str:
    """Return a cost as `$0.0123`, `<$0.0001`, or `–` where none is known; a partial one, of which something is not known, as `at least $0.0123`."""
    if cost_usd is None:
        return "–"
    if not 0 < cost_usd < _LEAST_SHOWN:
        return f"{'at least ' if is_partial else ''}${dollars(cost_usd)}"
    return "more than $0" if is_partial else f"<${_LEAST_SHOWN}"
