"""Programs of a bundle: what they are asked and answer, and that nothing of them is left or seen."""

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CodeNotAllowed
from engine.permissions import Permissions
from engine.tools.processes import CodeRefused, Confinement, ProcessFailed, Program
from tests.open_ends import open_ends
from tests.outside.reaching import CONFINED, Hold, WriteProgram, call, results_of
from tests.processes import told

DEADLINE_S = 20
MULTILIB = {"lib64", "lib32"} & {entry.name for entry in Path("/").iterdir()}
"""Which of these a machine has is its business."""

LOOK = """\
import json, os
def tries(do):
    try:
        return do()
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "state": tries(lambda: open(STATE).read()),
    "other": tries(lambda: os.listdir(OTHER)),
    "parent": tries(lambda: sorted(os.listdir("/bundle/.."))),
    "own": tries(lambda: os.path.exists("config.arena.yaml")),
    "write": tries(lambda: open("/bundle/new", "w").write("x")),
    "root": tries(lambda: open("/new", "w").write("x")),
    "scratch": tries(lambda: open("/tmp/new", "w").write("x")),
    "environment": sorted(os.environ),
    "given": os.environ["GIVEN"],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
}))
"""
"""Tells what a program sees; STATE and OTHER are set before it."""


def runs(file: str, **more: Any) -> dict[str, Any]:
    """Return an exec tool that runs a Python file of the bundle."""
    return {"mode": "exec", "exec": {"command": "python3", "args": [file]} | more}


async def test_a_program_answers(hold: Hold, program: WriteProgram) -> None:
    """A program reads its arguments and answers with a result; an error that it names is the model's to read."""
    program("add.py", "import json, sys\na = json.load(sys.stdin)['args']\nprint(json.dumps({'result': {'sum': a['x'] + a['y']}}))\n")
    program("no.py", 'print(\'{"error": "not today"}\')\n')
    result = await hold({"add": runs("add.py"), "no": runs("no.py")}, [call("add", x=1, y=2), call("no")])
    assert results_of(result) == ['{"sum":3}', "Error: not today"]


async def test_a_server_answers_a_whole_conversation(hold: Hold, program: WriteProgram) -> None:
    """A server is one process for all calls of a conversation."""
    program(
        "count.py",
        """\
        import json, sys
        calls = 0
        for line in sys.stdin:
            calls += 1
            print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"calls": calls}}), flush=True)
        """,
    )
    result = await hold({"count": runs("count.py", runtime="server")}, [call("count", a=1), call("count", a=2)])
    assert results_of(result) == ['{"calls":1}', '{"calls":2}']


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("import sys\nsys.exit('no luck')\n", "it ended with exit code 1; it wrote: no luck", id="it fails"),
        pytest.param("print('hello')\n", "its output is not JSON", id="it does not answer in JSON"),
        pytest.param("import time\ntime.sleep(600)\n", "it did not answer within 0.5 s", id="it hangs"),
        pytest.param("import sys\nwhile True: sys.stdout.write('x' * 65536)\n", "it wrote more than 8 MiB", id="it floods"),
        pytest.param("import sys\nwhile True: sys.stderr.write('x' * 65536)\n", "it did not answer within 0.5 s", id="it floods its error output"),
    ],
)
async def test_programs_that_fail(hold: Hold, program: WriteProgram, source: str, said: str) -> None:
    """A program that fails, hangs or floods is a tool error that names the command and why."""
    program("bad.py", source)
    timeout = 500 if "0.5" in said else 20_000
    result = await hold({"bad": runs("bad.py", timeout_ms=timeout)}, [call("bad")])
    assert "tool 'bad' cannot be called: command 'python3 bad.py' failed: " in results_of(result)[0]
    assert said in results_of(result)[0]


async def test_a_program_that_multiplies(hold: Hold, program: WriteProgram) -> None:
    """A program that starts more and more others is ended with all of them, also where the kernel's own limit does not bind."""
    mark = f"many-{os.getpid()}-{time.monotonic_ns()}"
    program(
        "many.py",
        f"""\
        import subprocess, time
        for _ in range(80):
            try:
                subprocess.Popen(["sh", "-c", "sleep 600; : {mark}"])
            except OSError:
                break
        time.sleep(600)
        """,
    )
    result = await hold({"many": runs("many.py", timeout_ms=15_000)}, [call("many")])
    assert "it has more than 64 processes" in results_of(result)[0] or os.getuid() != 0
    await until(lambda: not running(mark))


async def test_nothing_is_left_of_a_program(hold: Hold, program: WriteProgram) -> None:
    """What a program starts, also what leaves its group, ends with the call."""
    mark = f"left-{os.getpid()}-{time.monotonic_ns()}"
    program(
        "fork.py",
        f"""\
        import os, subprocess, sys
        for new in (False, True):
            subprocess.Popen(["sh", "-c", "sleep 600; : {mark}"], start_new_session=new, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print("1")
        """,
    )
    assert results_of(await hold({"fork": runs("fork.py")}, [call("fork")])) == ["1"]
    await until(lambda: not running(mark))


async def test_a_server_ends_with_its_conversation(hold: Hold, program: WriteProgram) -> None:
    """A server that does not leave by itself is ended when its conversation is over."""
    mark = f"server-{os.getpid()}-{time.monotonic_ns()}"
    program(
        "stay.py",
        """\
        import json, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(json.dumps({"id": json.loads(sys.stdin.readline())["id"], "result": 1}), flush=True)
        time.sleep(600)
        """,
    )
    assert results_of(await hold({"stay": runs("stay.py", runtime="server", args=["stay.py", mark])}, [call("stay")])) == ["1"]
    await until(lambda: not running(mark))


async def test_what_a_program_sees(hold: Hold, program: WriteProgram, tmp_path: Path) -> None:
    """A program sees its bundle, read-only, and the variables that its file names; no other file of ours, no other variable, no process of ours."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "token").write_text("secret")
    (tmp_path / "other-project").mkdir()
    program("look.py", f"STATE, OTHER = {str(tmp_path / 'state' / 'token')!r}, {str(tmp_path / 'other-project')!r}\n{LOOK}")
    result = await hold(
        {"look": runs("look.py", env=["GIVEN", "SET=here"])}, [call("look")], environment={"GIVEN": "value", "SECRET": "s", "REDIS_URL": "r"}
    )
    seen = json.loads(results_of(result)[0])
    assert seen.pop("processes") <= 4
    assert seen.pop("parent") == sorted({"bin", "bundle", "dev", "etc", "lib", "proc", "sbin", "tmp", "usr"} | MULTILIB)
    assert seen == {
        "state": "FileNotFoundError",
        "other": "FileNotFoundError",
        "own": True,
        "write": "OSError",
        "root": "OSError",
        "scratch": 1,
        "environment": ["GIVEN", "HOME", "LANG", "PATH", "PWD", "SET", "TMPDIR"],
        "given": "value",
    }


@pytest.mark.parametrize(("permissions", "reached"), [(CONFINED, False), (Permissions("confined", code_network=True), True)])
async def test_network_only_where_granted(hold: Hold, program: WriteProgram, permissions: Permissions, *, reached: bool) -> None:
    """A program reaches no address, loopback included, unless the operator lets it use the network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program(
            "dial.py",
            f"""\
            import socket
            try:
                socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}), timeout=5)
                print("true")
            except OSError:
                print("false")
            """,
        )
        assert results_of(await hold({"dial": runs("dial.py")}, [call("dial")], permissions=permissions)) == [json.dumps(reached)]


async def test_memory_and_files_are_limited(hold: Hold, program: WriteProgram) -> None:
    """A program gets no endless memory and fills no disk."""
    program(
        "hog.py",
        """\
        import json
        found = {}
        try:
            held = bytearray(3 << 30)
        except MemoryError:
            found["memory"] = True
        try:
            with open("/tmp/big", "wb") as file:
                for _ in range(200):
                    file.write(bytes(1 << 20))
        except OSError:
            found["disk"] = True
        print(json.dumps(found))
        """,
    )
    assert results_of(await hold({"hog": runs("hog.py")}, [call("hog")])) == ['{"disk":true,"memory":true}']


async def test_no_program_without_permission(hold: Hold, program: WriteProgram) -> None:
    """Without the operator's word the run is refused before anything starts, and names the command."""
    program("x.py", "print(1)\n")
    with pytest.raises(
        CodeNotAllowed, match=r"tool 'x' is the command 'python3 x\.py', and programs of this bundle are not allowed to run"
    ) as caught:
        await hold({"x": runs("x.py")}, [call("x")], permissions=Permissions())
    assert "--allow-code" in caught.value.hint


async def test_confinement_refuses_by_itself(tmp_path: Path) -> None:
    """Also behind that check nothing runs without permission."""
    with pytest.raises(CodeRefused, match="not allowed to run"):
        async with Confinement(tmp_path, Permissions()).start(Program(("true",))):
            pass


async def test_no_walls_no_program(tmp_path: Path) -> None:
    """Where programs cannot be confined they are refused, and run bare only if the operator says so; the environment is scrubbed either way."""
    with pytest.raises(CodeRefused, match="cannot confine command 'true': no such wall"):
        await Confinement(tmp_path, Permissions("confined"), unconfinable="no such wall").check()
    bare = Confinement(tmp_path, Permissions("unconfined"), unconfinable="no such wall")
    async with bare.start(Program(("env",), environment={"GIVEN": "1"})) as running_:
        seen = {line.partition("=")[0] for line in (await running_.converse(b"")).decode().splitlines()}
    assert seen == {"PATH", "LANG", "TMPDIR", "HOME", "GIVEN"}


@pytest.mark.usefixtures("walls")
async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    """A command that does not exist is an error that names it."""
    async with Confinement(tmp_path, Permissions("confined")).start(Program(("no-such-command",))) as running_:
        with pytest.raises(ProcessFailed, match=r"command 'no-such-command' failed: it ended with exit code 127; it wrote: .*no-such-command"):
            await running_.converse(b"")


@pytest.mark.parametrize(
    ("source", "score", "error"),
    [
        pytest.param('print(\'{"score": 0.75, "detail": "nearly"}\')', 0.75, "", id="a score"),
        pytest.param("print('{}')", None, "the answer of eval 'mine' has no score from 0 to 1", id="no score"),
        pytest.param("raise SystemExit(3)", None, "it ended with exit code 3", id="a failure is no score"),
    ],
)
async def test_programs_that_evaluate(hold: Hold, program: WriteProgram, source: str, score: float | None, error: str) -> None:
    """A program of runtime.evals is a check of its own name: its score counts, and a failure is an error, never a score."""
    program(
        "e.py",
        f"import json, sys\nasked = json.load(sys.stdin)\nassert asked['content'] == 'done' and asked['params'] == {{'k': 1}}, asked\n{source}\n",
    )
    check = {"type": "mine", "params": {"k": 1, "min_score": 0.5}}
    programs = {"evals": {"mine": {"command": "python3", "args": ["e.py"]}}}
    result = (await hold({}, [], checks=[check], runtime=programs)).checks[0]
    assert (result.type, result.score, result.passed) == ("mine", score, score is not None)
    assert error in result.error


@pytest.mark.parametrize(
    ("pattern", "passed"), [({"success_pattern": "ok"}, True), ({"failure_pattern": "ok"}, False), ({"success_pattern": "no"}, False)]
)
async def test_a_tool_is_run_at_the_end(hold: Hold, program: WriteProgram, pattern: dict[str, str], *, passed: bool) -> None:
    """tool_exec runs a tool after the conversation and looks for patterns in its output."""
    program("t.py", 'print(\'{"result": "ok"}\')\n')
    result = await hold({"t": runs("t.py")}, [], checks=[{"type": "tool_exec", "params": {"tool": "t"} | pattern}])
    assert result.checks[0].passed is passed
    assert not result.checks[0].error


@pytest.mark.parametrize("steps", range(2, 8))
async def test_a_start_that_is_cut_off_leaves_nothing(tmp_path: Path, steps: int) -> None:
    """However far the start of a program has come when its item is cancelled, the item ends, and so does all that the program has begun."""
    bare, mark = Confinement(tmp_path, Permissions("unconfined"), unconfinable="no such wall"), f"600.{os.getpid()}{steps}"

    async def run() -> None:
        async with bare.start(Program(("sh", "-c", f"sleep {mark} & wait"))):
            await asyncio.Event().wait()

    item = asyncio.ensure_future(run())
    for _ in range(steps):
        await asyncio.sleep(0)
    child, shortly = f"sleep\0{mark}", time.monotonic() + 0.3
    while not running(child) and time.monotonic() < shortly:
        time.sleep(0.01)  # noqa: ASYNC251 - the program goes on while the loop stands still in the middle of its start
    item.cancel()
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(asyncio.CancelledError):
            await item
    await until(lambda: not running(child))


async def test_no_pipe_of_a_program_is_left(tmp_path: Path) -> None:
    """When a program is over its end is known and our ends of its pipes are closed, though a process that left its group keeps the others."""
    bare, before = Confinement(tmp_path, Permissions("unconfined"), unconfinable="no such wall"), open_ends()
    async with bare.start(Program(("setsid", "-f", "sh", "-c", "echo $$; exec sleep 600"))) as running_:
        left = int(await running_.receive())
        assert open_ends() > before
    try:
        assert open_ends() == before
        assert "exit code 0" in running_.failed("it is over").message
    finally:
        os.kill(left, signal.SIGKILL)


def running(mark: str) -> bool:
    """Say whether a process has `mark` on its command line."""
    return any(mark.encode() in words for _, words in told("cmdline"))


async def until(holds: Any) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - nobody tells when a process is gone
            await asyncio.sleep(0.02)
