"""The controller runtime: queue, watches, passes and what a pass writes.

Knows the Cluster port and a clock; must not know any kind: reconcilers bring the meaning.
"""
