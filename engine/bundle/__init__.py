"""A bundle: the PromptKit files of one arena, loaded, validated and resolved.

`load_bundle` reads; `check_supported` refuses by name what a plan needs and the engine does not do yet. Knows the format; must not know providers'
protocols, queues or runs.
"""

from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle
from engine.bundle.supported import check_supported

__all__ = ["Bundle", "check_supported", "load_bundle"]
