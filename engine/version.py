"""The engine's version: two results may be compared, or one reused for the other, only when it is equal."""

ENGINE_VERSION = "2"
"""Bumped whenever the same bundle may give another result: a check's rule, a token formula, the order of items."""
