"""Variables that a bundle names: what is missing, and who gives it."""

import pytest

from engine.tools.environment import Environment, VariableRefused


def test_a_variable_that_is_not_set_is_named_with_its_remedies() -> None:
    """The person at the keyboard and the operator of an installation set it in different places."""
    with pytest.raises(VariableRefused, match="variable SHOP_TOKEN of tool 'look' is not set") as refused:
        Environment({}).value("SHOP_TOKEN", "tool 'look'")
    assert "set SHOP_TOKEN for `arena eval`" in refused.value.hint
    assert "`arena up --worker-env SHOP_TOKEN`" in refused.value.hint
