"""Conversations: a scenario held with a provider, turn by turn, and checked.

`ItemRunner` is the way in. Knows bundles, providers, tools and checks; must not know queues, workers or where results go.
"""

from engine.conversation.runner import ItemRunner

__all__ = ["ItemRunner"]
