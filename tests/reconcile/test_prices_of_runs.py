"""What the runs of an installation cost: by the operator's prices, fixed with the plan, and never by silence."""

from dataclasses import replace

from engine.plan import Plan
from engine.providers.prices import Price
from reconcile.run import RunReconciler
from reconcile.runtime.controller import Controller, ControllerOptions
from tests.reconcile.conftest import BUNDLE, PROVIDER, World

WITH_MODEL = {
    **BUNDLE,
    "provider.yaml": PROVIDER.replace("type: mock, model: m, additional_config: {mock_config: answers.yaml}", "type: openai, model: homemade"),
}


async def test_a_run_says_whose_price_is_not_known(world: World) -> None:
    """A model without a price is an event of the run that names it."""
    await world.project_with(WITH_MODEL)
    await world.job()
    await world.look_at_all(2)
    assert any("the price of model 'homemade' is not known" in message for message in await world.events("BundleWarning"))


async def test_the_operators_prices_travel_in_the_plan(world: World) -> None:
    """With them nothing is unknown, and workers read them from the plan."""
    prices = {"homemade": Price(1.0, 2.0, 0.5)}
    runs = RunReconciler(replace(world.runs_world, prices=prices))
    world.controllers["ArenaRun"] = Controller(world.cluster, runs, clock=world.clock, options=ControllerOptions(debug=True))
    await world.project_with(WITH_MODEL)
    await world.job()
    await world.look_at_all(2)
    plan = Plan.from_bytes(await world.queue.plan((await world.run())["metadata"]["uid"]))
    assert plan.prices == prices
    assert not any("price" in message for message in await world.events("BundleWarning"))
