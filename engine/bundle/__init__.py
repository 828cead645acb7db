"""A bundle: the PromptKit files of one arena, loaded, validated and resolved.

`load_bundle` reads. Knows the format; must not know providers' protocols, queues or runs.
"""

from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle

__all__ = ["Bundle", "load_bundle"]
