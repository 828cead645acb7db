"""How many remotes are asked at once."""

from reconcile.project.turns import FetchTurns


def test_turns_are_few_and_shared() -> None:
    """A namespace gets its share of the turns, all together no more than there are, and what is given back is free."""
    turns = FetchTurns(total=3, per_namespace=2)
    with turns.take("a") as one, turns.take("a") as two, turns.take("a") as beyond_share, turns.take("b") as other, turns.take("c") as beyond_all:
        assert (one, two, beyond_share, other, beyond_all) == (True, True, False, True, False)
    with turns.take("a") as again:
        assert again
