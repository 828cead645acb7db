"""Bundles written to disk for one test."""

from tests.conversation.conftest import write

__all__ = ["write"]
