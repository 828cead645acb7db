"""`arena agent serve`, as a person runs it, and as another library's client sees it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket  # websocket-client: not the library that serves

from tests.agents.clients import write_starter


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command until the block ends; the block gets its process and the address it names."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARENA_")}
    command = [sys.executable, "-m", "arena", "agent", "serve", *options, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, next(word for word in line.split() if word.startswith("ws://"))
        finally:
            process.kill()


def ask(address: str, text: str, token: str) -> list[dict[str, Any]]:
    """Hold a conversation of one turn and return all frames."""
    connection = websocket.create_connection(f"{address}?agent=a&namespace=n", timeout=20, header=[f"Authorization: Bearer {token}"])
    try:
        frames = [json.loads(connection.recv())]
        connection.send(json.dumps({"type": "message", "session_id": frames[0]["session_id"], "content": text}))
        while frames[-1]["type"] != "done":
            frames.append(json.loads(connection.recv()))
        return frames
    finally:
        connection.close()


def test_a_bundle_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    """Any client of the protocol is answered, if it shows the token; ctrl-c ends the server with its sessions."""
    bundle = write_starter(tmp_path / "bundle")
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with serving(str(bundle), "--scenario", "order-status", "--provider", "steady", "--token-file", str(token)) as (process, address):
        frames = ask(address, "Where is it?", "s3cret")
        assert [frame["type"] for frame in frames] == ["connected", "tool_call", "tool_result", "chunk", "done"]
        with pytest.raises(websocket.WebSocketBadStatusException, match="401"):
            ask(address, "Where is it?", "guess")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
