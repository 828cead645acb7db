"""What an estimate assumes of whoever answers: at the least, likely, and at the most.

Owns the assumptions, each in one place. Pure.
"""

from dataclasses import dataclass

LIKELY_REPLY_TOKENS = 200
"""How long a reply is where nothing else is known."""

LIKELY_RESULT_TOKENS = 100
"""How long a tool's result is; that of a mock is measured by nobody either, for its arguments decide."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How talkative everybody is.

    `reply_tokens` bounds a reply besides its own limit; `tool_rounds` is how often in a turn tools are called before the answer, within the turn's limit;
    `longest` says that self-play goes on to its end, and judges need all of their tries.
    """

    name: str
    reply_tokens: int | None
    tool_rounds: int | None
    longest: bool

    def reply(self, limit: int) -> int:
        """Return how many tokens a reply of at most `limit` has."""
        return limit if self.reply_tokens is None else min(limit, self.reply_tokens)

    def rounds(self, limit: int) -> int:
        """Return how many requests a turn with tools makes, of at most `limit`."""
        return limit if self.tool_rounds is None else min(limit, 1 + self.tool_rounds)


LEAST = Habit("least", 1, 0, longest=False)
LIKELY = Habit("likely", LIKELY_REPLY_TOKENS, 1, longest=False)
MOST = Habit("most", None, None, longest=True)

HABITS = (LEAST, LIKELY, MOST)

METHOD = (
    "input tokens are counted from the bundle's own texts and tool schemas, as words times a ratio of the model's family",
    "pictures, sound, saved conversations and what real tools bring are not in them",
    "least: every reply is one token and no tool is called",
    f"likely: replies of {LIKELY_REPLY_TOKENS} tokens, one round of tools in each turn that offers any, tool results of {LIKELY_RESULT_TOKENS} tokens",
    "most: every reply is as long as its limit allows, and tools, self-play and judges' tries go to theirs",
    "requests that are made again, items that are tried again, and prompt caching are not counted",
)
"""How the figures come about, a sentence each."""
