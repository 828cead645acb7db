"""The gate between receive-pack and the policy: the hook asks, the server answers, over two pipes that the hook inherits.

Owns the pipes and the dialogue. There is no socket path to guess, no credential, and nothing to import in the hook: `sh` alone costs about a
millisecond. The gate fails closed: without an answer the hook refuses. Must not know the rules.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from foundation.errors import ArenaError
from gitops.errors import GitFailed, PushRefused
from gitops.inspection import printable
from gitops.pipes import ReadEnd

HOOKS = Path(__file__).with_name("hooks")
_QUESTION_LIMIT_BYTES = 8192
_ANSWER_LIMIT_CHARACTERS = 1000
_ACCEPT = "accept"
_END = b"\ndone\n"

Check = Callable[[Path | None], Awaitable[None]]


class PushGate:
    """One push's gate. Use as a context manager around the receive-pack that `environment` and `descriptors` are given to."""

    def __init__(self) -> None:
        hook = HOOKS / "pre-receive"
        if not os.access(hook, os.X_OK):
            # git skips a hook that it may not execute, and the push would go through unchecked.
            raise GitFailed(f"cannot check pushes: '{hook}' is not executable", hint=f"run `chmod +x {hook}`, on a file system without noexec")
        self._question, self._hook_question = os.pipe()
        self._hook_answer, self._answer = os.pipe()

    @property
    def descriptors(self) -> tuple[int, int]:
        """The hook's ends, which receive-pack must inherit."""
        return self._hook_question, self._hook_answer

    @property
    def environment(self) -> dict[str, str]:
        """How the hook finds its ends."""
        return {"ARENA_PUSH_QUESTION": str(self._hook_question), "ARENA_PUSH_ANSWER": str(self._hook_answer)}

    @property
    def settings(self) -> dict[str, str]:
        """The git settings that make receive-pack run the hook."""
        return {"core.hooksPath": str(HOOKS)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.started()
        _close(self._question, self._answer)
        self._question = self._answer = -1

    def started(self) -> None:
        """Close the hook's ends in this process: from now on the end of receive-pack is the end of the question. Idempotent."""
        _close(self._hook_question, self._hook_answer)
        self._hook_question = self._hook_answer = -1

    async def serve(self, check: Check) -> PushRefused | GitFailed | None:
        """Wait for the hook's question, run `check` with the quarantine's path, and answer.

        Returns the refusal that was answered; None when the push was let in or receive-pack ended without asking.
        """
        question = await _read_question(self._question)
        if not question.endswith(_END):
            return None
        path = os.fsdecode(question.partition(b"\n")[0])
        refusal: PushRefused | GitFailed | None = None
        try:
            await check(Path(path) if path else None)
        except (PushRefused, GitFailed) as error:
            refusal = error
        self._write(_ACCEPT if refusal is None else one_line(refusal))
        return refusal

    def _write(self, answer: str) -> None:
        # A line this short always fits the empty pipe; a hook that is gone does not want it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answer, f"{answer}\n".encode())


def one_line(error: ArenaError) -> str:
    """Return the refusal as the user's client prints it: one line with the remedy."""
    text = f"error: {error.message}; {error.hint}" if error.hint else f"error: {error.message}"
    return printable(text)[:_ANSWER_LIMIT_CHARACTERS]


async def _read_question(descriptor: int) -> bytes:
    pipe = ReadEnd(os.dup(descriptor))
    question = bytearray()
    try:
        # receive-pack has the writing end too, so its end of file would come too late: the hook says when it is done.
        while not question.endswith(_END) and len(question) < _QUESTION_LIMIT_BYTES and (chunk := await pipe.read(_QUESTION_LIMIT_BYTES)):
            question += chunk
    finally:
        pipe.close()
    return bytes(question)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
