"""What a bundle says of services, servers, agents and programs: read whole, or refused with file, line and cause."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.bundle import load_bundle
from engine.errors import BundleInvalid

Write = Callable[[Mapping[str, str | bytes | None]], Path]
A = "config.arena.yaml"
ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  scenarios: [{file: scenarios/hello.yaml}]
"""


def tool(rest: str) -> str:
    """Return an arena with one inline tool that its prompt allows."""
    return ARENA + f"  tool_specs: {{t: {{description: d, input_schema: {{}}, {rest}}}}}\n"


@pytest.mark.parametrize(
    ("arena", "message"),
    [
        pytest.param(tool("mode: live, http: {url: 'ftp://x'}"), "'ftp://x' is not an address of http or https", id="an address"),
        pytest.param(tool("mode: live, http: {url: 'http://x', method: BREW}"), "it must be one of GET, HEAD", id="a method"),
        pytest.param(tool("mode: live, http: {url: 'http://x', response: {body_mapping: '[['}}"), "is not JMESPath", id="a mapping"),
        pytest.param(
            tool("mode: live, http: {url: 'http://x', headers_from_env: [X-Key]}"), "is not Header=VARIABLE", id="a header of the environment"
        ),
        pytest.param(tool("mode: live, http: {url: 'http://x', retries: 3}"), "unknown key 'retries' in `http`", id="an unknown key"),
        pytest.param(tool("mode: exec, exec: {command: c, env: ['A B']}"), "'A B' is not the name of a variable", id="a variable"),
        pytest.param(ARENA + "  mcp_servers: [{name: m}]\n", "it must have exactly one of command, url and source", id="a server nowhere"),
        pytest.param(ARENA + "  mcp_servers: [{name: m, command: c, url: 'http://x'}]\n", "exactly one of", id="a server twice"),
        pytest.param(
            ARENA + "  mcp_servers: [{name: m, url: 'http://x', transport: stdio}]\n", "transport stdio does not go with url", id="a transport"
        ),
        pytest.param(ARENA + "  mcp_servers: [{name: 'a b', command: c}]\n", "characters that no tool's name may have", id="a server's name"),
        pytest.param(ARENA + "  mcp_servers: [{name: m, command: c, working_dir: ../..}]\n", "the path leaves the bundle", id="a folder outside"),
        pytest.param(ARENA + "  mcp_servers: [{name: m, command: c}, {name: m, command: c}]\n", "duplicate MCP server 'm'", id="two of a name"),
        pytest.param(ARENA + "  a2a_agents: [{name: a}]\n", "it must have either a card (a mock) or a url", id="an agent nowhere"),
        pytest.param(
            ARENA + "  a2a_agents: [{name: a, card: {name: c}, responses: [{skill: s}]}]\n", "either a response or an error", id="no answer"
        ),
        pytest.param(
            ARENA + "  a2a_agents: [{name: a, card: {name: c}, responses: [{match: {regex: '('}, error: e}]}]\n",
            "cannot read 'regex'",
            id="a pattern",
        ),
    ],
)
def test_refused(write: Write, arena: str, message: str) -> None:
    """A service that cannot be meant is refused when the bundle is loaded, by file and line."""
    with pytest.raises(BundleInvalid, match=r"config\.arena\.yaml:7") as caught:
        load_bundle(write({A: arena}))
    assert message in caught.value.message


def test_a_live_tool_says_where(write: Write) -> None:
    """A tool whose mode needs a way to it, and that a prompt allows, must have it."""
    prompt = "kind: PromptConfig\nmetadata: {name: assistant}\nspec: {task_type: assistant, system_template: x, allowed_tools: [t]}\n"
    with pytest.raises(BundleInvalid, match="its mode is live, and it has no 'http'"):
        load_bundle(write({A: tool("mode: live"), "prompts/assistant.yaml": prompt}))


def test_everything_is_kept(write: Write) -> None:
    """Servers, agents and programs are read into values with their own folders."""
    arena = load_bundle(
        write(
            {
                A: ARENA
                + "  mcp_servers: [{name: m, command: c, args: [x], working_dir: sub, tool_filter: {allowlist: [y]}, timeout_ms: 5}]\n"
                + "  a2a_agents: [{name: a, url: 'https://x', auth: {token_env: T}}]\n"
                + "  runtime: {evals: {e: {command: ./e, env: [A, B=1]}}}\n"
            }
        )
    ).arena
    (server,), (agent,) = arena.mcp_servers, arena.a2a_agents
    assert server.command is not None
    assert (server.transport, str(server.command), server.command.directory, server.tools.passes("z")) == ("stdio", "c x", "sub", False)
    assert (agent.url, agent.scheme, agent.token_env) == ("https://x", "Bearer", "T")
    assert arena.programs["e"].env == {"A": None, "B": "1"}
