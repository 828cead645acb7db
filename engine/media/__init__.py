"""Media of messages, made ready for providers that read them: out of the bundle, out of a cache by digest, or from the web, once.

`MediaProvider` is the way in. Knows the web and files; must not know conversations, nor how a vendor encodes a part.
"""

from engine.media.provider import MediaProvider
from engine.media.store import MediaStore

__all__ = ["MediaProvider", "MediaStore"]
