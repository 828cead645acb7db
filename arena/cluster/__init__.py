"""Cluster mode put together: the processes that a Kubernetes cluster runs, `arena controller` and `arena git-server`.

Every port gets its adapter here, as `arena.wiring` does it for local mode. Nothing outside of this package and its commands imports it.
"""
