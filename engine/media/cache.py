"""What was fetched from the web, on disk: bytes by their digest, and which digest each address had when it was first fetched.

The first answer of an address stands until its entry is removed, so that all items of a run, and later runs without network, see the same bytes. Several
processes may share a directory: files appear whole, and the first to write an entry wins. Must not know the web.
"""

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from engine.errors import MediaUnavailable

MAX_ENTRY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """What an address had: the digest of its bytes (SHA-256, hexadecimal), and `file`, whose removal makes it be fetched anew."""

    sha256: str
    file: Path


class MediaCache:
    """A cache in a directory, which is made at the first write where its parent is: a run's that is gone does not come back. All methods block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def entry(self, url: str) -> Entry | None:
        """Return what an address had; None when it was never fetched, or its entry cannot be read."""
        file = self._entry_file(url)
        try:
            with file.open("rb") as stream:
                digest = json.loads(stream.read(MAX_ENTRY_BYTES))["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Entry(digest, file) if isinstance(digest, str) and digest else None

    def content(self, digest: str) -> bytes | None:
        """Return the bytes of a digest; None when they are not there, or are no longer what they were."""
        try:
            content = self._content_file(digest).read_bytes()
        except OSError:
            return None
        return content if digest_of(content) == digest else None

    def keep(self, url: str, content: bytes) -> Entry:
        """Keep what an address has; return the entry that counts, which is another process's if that was first.

        Raises:
            MediaUnavailable: the directory cannot be written.
        """
        digest = digest_of(content)
        try:
            self._write(self._content_file(digest), content, first_wins=False)
            self._write(self._entry_file(url), json.dumps({"sha256": digest, "sizeBytes": len(content)}).encode(), first_wins=True)
        except OSError as error:
            cause = (error.strerror or type(error).__name__).lower()
            raise MediaUnavailable(
                f"cannot keep media in '{self.directory}': {cause}", hint="name another one: --media-cache, or ARENA_MEDIA_CACHE of workers"
            ) from error
        return self.entry(url) or Entry(digest, self._entry_file(url))

    def _entry_file(self, url: str) -> Path:
        return self.directory / "urls" / f"{digest_of(url.encode('utf-8', 'surrogatepass'))}.json"

    def _content_file(self, digest: str) -> Path:
        return self.directory / "sha256" / digest[:2] / digest

    def _write(self, file: Path, content: bytes, *, first_wins: bool) -> None:
        self.directory.mkdir(exist_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{secrets.token_hex(8)}.new")
        try:
            new.write_bytes(content)
            if first_wins:
                os.link(new, file)
            else:
                new.replace(file)
        except FileExistsError:
            pass  # another process was first, and its entry counts
        finally:
            new.unlink(missing_ok=True)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
