"""ArenaJob settings of load tests and data generation."""

from typing import Literal

from pydantic import Field

from reconcile.kinds.wire import Positive, ShortText, WireModel

Metric = Literal[
    "latency_avg",
    "latency_p50",
    "latency_p90",
    "latency_p95",
    "latency_p99",
    "ttft_avg",
    "ttft_p50",
    "ttft_p90",
    "ttft_p95",
    "ttft_p99",
    "error_rate",
    "pass_rate",
    "total_cost",
    "rate_limit_rate",
    "arrival_lag",
]


class Ramp(WireModel):
    """How concurrency rises and falls, linearly."""

    up: ShortText | None = Field(None, description="How long concurrency rises at the start, such as 2m.")
    down: ShortText | None = Field(None, description="How long concurrency falls at the end, such as 30s.")


class Threshold(WireModel):
    """A target that is checked when the load test ends."""

    metric: Metric = Field(description="What is compared.")
    operator: Literal["<", ">", "<=", ">="] = Field(description="How the metric must relate to the value.")
    value: ShortText = Field(description="A duration for latency and ttft, a number from 0 to 1 for rates, a number for total_cost.")


class LoadTest(WireModel):
    """Settings of a load test."""

    concurrency: Positive = Field(1, description="Most items in flight over all workers.")
    vus_per_worker: Positive = Field(1, description="Virtual users in each worker.")
    duration: ShortText | None = Field(None, description="How long load is applied, such as 10m; then trials is ignored.")
    rate: Positive | None = Field(None, description="Arrivals a second over all workers: the open model. Needs duration.")
    ramp: Ramp | None = Field(None, description="Linear rise and fall of concurrency.")
    thresholds: list[Threshold] = Field(default_factory=list, max_length=64, description="Targets checked at the end.")
    unmeasured: Literal["Pass", "Fail"] = Field("Pass", description="What a threshold on a metric that nobody measured counts as.")
    budget_limit: str | int | None = Field(
        None,
        json_schema_extra={"x-kubernetes-int-or-string": True, "maxLength": 64},
        description="Removed: use spec.budgetLimit. Refused, so that no run goes without the cap that it asks for.",
    )


class DataGen(WireModel):
    """Settings of a data generation job."""

    count: Positive = Field(100, description="Number of conversations to generate.")
    format: Literal["jsonl", "json"] = Field("jsonl", description="Format of the export.")
