"""The rules that every Cluster adapter keeps for Secrets and ConfigMaps."""

import pytest

from reconcile.cluster.port import CONFIG_MAP, SECRET, Cluster
from reconcile.errors import Invalid
from tests.contracts.cluster_objects import NS, make


async def test_secret_string_data(cluster: Cluster) -> None:
    """A Secret's stringData becomes base64 data; its type defaults to Opaque and cannot change."""
    secret = await cluster.create(make(SECRET, "s", stringData={"key": "värde"}))
    assert secret["data"] == {"key": "dsOkcmRl"}
    assert secret["type"] == "Opaque"
    assert "stringData" not in secret
    with pytest.raises(Invalid, match="type"):
        await cluster.patch(SECRET, NS, "s", {"type": "kubernetes.io/tls"})


async def test_immutable_config_map(cluster: Cluster) -> None:
    """An immutable ConfigMap keeps its data; its metadata may change."""
    await cluster.create(make(CONFIG_MAP, "c", data={"a": "1"}, immutable=True))
    with pytest.raises(Invalid, match="immutable"):
        await cluster.patch(CONFIG_MAP, NS, "c", {"data": {"a": "2"}})
    await cluster.patch(CONFIG_MAP, NS, "c", {"metadata": {"labels": {"x": "y"}}})


async def test_config_map_has_no_generation(cluster: Cluster) -> None:
    """Core kinds count no generation, and may be updated without a resourceVersion."""
    config = await cluster.create(make(CONFIG_MAP, "c", data={"a": "1"}))
    assert "generation" not in config["metadata"]
    del config["metadata"]["resourceVersion"]
    assert (await cluster.update({**config, "data": {"a": "2"}}))["data"] == {"a": "2"}


@pytest.mark.parametrize("field", ["data", "binaryData"])
async def test_data_is_limited(cluster: Cluster, field: str) -> None:
    """The values of a ConfigMap have at most 1 MiB together, decoded."""
    text = "eHh4" * (1024 * 1024 // (4 if field == "data" else 3) + 1)
    with pytest.raises(Invalid, match="1048576"):
        await cluster.create(make(CONFIG_MAP, "c", **{field: {"a": text}}))
    await cluster.create(make(CONFIG_MAP, "c", **{field: {"a": text[:-8]}}))
