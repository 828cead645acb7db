"""The work queue: the items of a run, leased to workers and counted once.

Owns leases and accounting records until a run is settled, and the embedded server that holds them when no other is given. Must not know what a
conversation, a transcript or a Kubernetes object is.
"""
