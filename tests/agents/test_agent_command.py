"""`arena agent serve`, as a person runs it, and as another library's client sees it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import websocket  # websocket-client: not the library that serves

from tests.agents.clients import serving_command, write_starter


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
    with serving_command(str(bundle), "--scenario", "order-status", "--provider", "steady", "--token-file", str(token)) as (process, address):
        frames = ask(address, "Where is it?", "s3cret")
        assert [frame["type"] for frame in frames] == ["connected", "tool_call", "tool_result", "chunk", "done"]
        with pytest.raises(websocket.WebSocketBadStatusException, match="401"):
            ask(address, "Where is it?", "guess")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
