"""The keys that are read and have no effect, in one place, with the reason.

A key in IGNORED gives a warning wherever it is set, because its author expects something of it. One in NOTED is about matters that are not this
product's (reports, deployments, documentation); `arena validate` mentions it, a run does not. Keyed by the table's name and the key.
"""

from collections.abc import Mapping

ARENA = "the arena's spec"
DEFAULTS = "the arena's defaults"
SCENARIO = "a scenario's spec"
TURN = "a turn"
ASSERTION = "a check"
TOOL_POLICY = "a tool policy"
PROVIDER = "a provider's spec"
STREAM_RETRY = "`stream_retry`"
HTTP_TRANSPORT = "`http_transport`"
PROMPT = "a prompt's spec"
VALIDATOR = "a validator"
VARIABLE = "a variable"
SELF_PLAY = "`self_play`"
JUDGE_DEFAULTS = "`judge_defaults`"
MCP_SERVER = "an MCP server"
AGENT_CARD = "a card of an agent"
AGENT_SKILL = "a skill of an agent"
RELEVANCE = "`relevance`"
PERSONA = "a persona's spec"
EVAL = "an eval's spec"
SESSION_EVAL = "a session eval"
STATE_STORE = "`state_store`"
INLINE_JUDGE = "a judge of `judge_specs`"
CLIENT = "`client`"
CONSENT = "`consent`"
PACK_PROMPT = "a pack's prompt"
STYLE = "`style`"

_NEVER_READ = "the format's reference engine never reads it either"

IGNORED: Mapping[tuple[str, str], str] = {
    (JUDGE_DEFAULTS, "prompt_registry"): "judges' prompts are those of the arena's prompt_configs",
    (ARENA, "agents"): "it says how a deployment exposes the bundle's prompts and states as agents",
    (DEFAULTS, "concurrency"): "a job's workers.concurrency decides, or `arena eval -j`",
    (DEFAULTS, "fail_on"): "a run fails on every failed check and every error",
    (SCENARIO, "mode"): _NEVER_READ,
    (SCENARIO, "context"): _NEVER_READ,
    (SCENARIO, "constraints"): _NEVER_READ,
    (TURN, "assistant_temp"): _NEVER_READ,
    (TURN, "user_temp"): _NEVER_READ,
    (TURN, "seed"): _NEVER_READ,
    (TOOL_POLICY, "max_total_tool_calls"): _NEVER_READ,
    (TOOL_POLICY, "max_tool_calls_per_turn"): "max_rounds and max_cost_usd limit a turn's tool calls",
    (MCP_SERVER, "scope"): "every conversation has a session of its own",
    (VALIDATOR, "fail_on_violation"): "a guardrail rewrites the reply; a check (guardrail_triggered) can fail the run",
}

_WAITS = "how long a failed request waits follows from what the provider answers"

NOTED: Mapping[tuple[str, str], str] = {
    (ARENA, "deploy"): "deployments are not part of a run",
    **dict.fromkeys(((ARENA, key) for key in ("voices", "tts_providers", "stt_providers")), "it is about live audio"),
    **dict.fromkeys(((STATE_STORE, key) for key in ("redis", "file")), "conversations are kept in memory while they last"),
    (INLINE_JUDGE, "name"): "its key is its name",
    **dict.fromkeys(((SESSION_EVAL, key) for key in ("metric", "groups")), "results name session evals by their id"),
    **dict.fromkeys(((EVAL, key) for key in ("mode", "speed")), "a recording is gone through at once"),
    (EVAL, "tags"): "evals are chosen by their names",
    (MCP_SERVER, "source_args"): "it belongs to a source",
    **dict.fromkeys(((CLIENT, key) for key in ("timeout_ms", "categories", "validate_output")), "no client is there: the tool's mock answers"),
    **dict.fromkeys(((CONSENT, key) for key in ("required", "message")), "nobody is asked: a turn's consent_overrides decide"),
    (PACK_PROMPT, "pipeline"): "it is for other runtimes",
    (DEFAULTS, "output"): "results go to the run's directory, or to `arena eval --out`",
    (DEFAULTS, "html_report"): "it is deprecated in the format",
    (DEFAULTS, "out_dir"): "it is deprecated in the format",
    (DEFAULTS, "output_formats"): "it is deprecated in the format",
    (DEFAULTS, "markdown_config"): "it is deprecated in the format",
    (DEFAULTS, "verbose"): "logging is a setting of the program",
    (DEFAULTS, "monitor"): "it is about live audio",
    (VARIABLE, "validation"): "values are not validated",
    (VARIABLE, "binding"): "it is for platforms that fill variables themselves",
    (PERSONA, "voice"): "it is about live audio",
    (STYLE, "expressive"): "it is about live audio",
    (STYLE, "characterization_rubric"): "no check judges how a simulated user keeps to its character",
    (RELEVANCE, "always_keep_system_role"): "a system prompt is always sent",
    (RELEVANCE, "cache_embeddings"): "the embeddings of a conversation are kept as long as it lasts in any case",
    **{
        (AGENT_CARD, key): "a mock is never asked for its card"
        for key in ("version", "url", "provider", "capabilities", "default_output_modes", "defaultOutputModes")
    },
    **{(AGENT_SKILL, key): "it documents the skill" for key in ("tags", "examples", "output_modes")},
    (PROVIDER, "pricing_correct_at"): "it documents the price",
    **{(PROVIDER, key): "it is about live audio" for key in ("voice", "sample_rate", "audio_files")},
    (STREAM_RETRY, "initial_delay"): _WAITS,
    (STREAM_RETRY, "max_delay"): _WAITS,
    (STREAM_RETRY, "retry_window"): "a stream is asked for again only while nothing of it was given out",
    (STREAM_RETRY, "budget"): "`rate_limit` holds for every request, those that are made again included",
    (HTTP_TRANSPORT, "max_idle_conns_per_host"): "idle connections are kept for idle_conn_timeout, however many there are",
    (PROMPT, "media"): "its limits are not enforced",
    (PROMPT, "parameters"): "it documents a compiled pack",
    (PROMPT, "template_engine"): "there is one template engine",
    (PROMPT, "tested_models"): "it is documentation",
    (PROMPT, "metadata"): "it is documentation",
    (PROMPT, "compilation"): "it is documentation",
}
