"""Live tools: a call becomes an HTTP request, its answer what the model reads (promptkit-format.md 6.2).

Owns where an argument goes: into the address, a header, the query or the body, each once; and what is taken out of an answer. What is secret, the
values of variables and the fields to redact, is in no result and no message. Must not know how a connection is made.
"""

import base64
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from engine.bundle.model import Tool
from engine.bundle.services import HttpCall
from engine.errors import ToolsUnavailable
from engine.providers.messages import json_text
from engine.providers.port import ToolSpec
from engine.tools.arguments import coerce_arguments
from engine.tools.environment import Environment, VariableRefused
from engine.tools.fitting import check_arguments, shortest_s
from engine.tools.port import CallFailed, ToolAnswer
from engine.tools.schema import Schema
from engine.tools.template import Template, parse_template
from engine.tools.template_values import NO_VALUE
from engine.tools.toolbox import shortened
from engine.tools.web import DEFAULT_TIMEOUT_S, MAX_BODY_BYTES, WebAnswer, WebError, WebRequest, shown

REDACTED: Final = "[REDACTED]"
SHOWN_BODY_CHARACTERS: Final = 300
MAX_MEDIA_BYTES: Final = 4 << 20
_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
_TAKEN: Final = re.compile(r"\{\{-?\s*\$?\.(\w+)")
_SAFE_IN_ADDRESS: Final = ",:;@!$'()*~"
_MEDIA: Final = ("image", "audio", "video")
_SHORTEST_SECRET: Final = 4

Fetch = Callable[[WebRequest], Awaitable[WebAnswer]]
"""Returns the answer to a request; raises WebError without one."""


class HttpTool:
    """A live tool. Shared by conversations. The address of a file is a template; that of a registry is sent to as it stands."""

    waits = True

    def __init__(self, tool: Tool, call: HttpCall, fetch: Fetch, environment: Environment) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._call = call
        self._fetch = fetch
        self._environment = environment
        self._input = Schema(tool.input_schema) if tool.input_schema else None
        self._output = Schema(tool.output_schema) if tool.output_schema else None
        self._url = None if call.of_job else parse_template(call.url)
        self._headers = {header: parse_template(value) for header, value in {**call.headers, **call.header_params}.items()}
        taken = [
            name for text in ("" if call.of_job else call.url, *call.headers.values(), *call.header_params.values()) for name in _TAKEN.findall(text)
        ]
        self._placed = frozenset((*taken, *call.exclude))
        self._timeout_s = shortest_s(call.timeout_ms, tool.timeout_ms, default_s=DEFAULT_TIMEOUT_S)

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says.

        Raises:
            ToolsUnavailable: the endpoint of a registry is out, or cannot be reached at all.
        """
        coerced = coerce_arguments(arguments, self.spec.input_schema)
        check_arguments(coerced, self._input)
        secrets: dict[str, str] = {}
        try:
            secrets = {name: self._environment.value(variable, f"header '{name}'") for name, variable in self._call.headers_from_env}
            request = self.request(coerced, secrets)
            answer = await self._fetch(request)
        except (VariableRefused, WebError) as error:
            raise self._failed(error.message, secrets.values()) from None
        except ToolsUnavailable as error:
            raise ToolsUnavailable(without(error.message, secrets.values()), hint=error.hint, transient=error.transient) from None
        if not answer.is_good:
            body = answer.text().strip()[:SHOWN_BODY_CHARACTERS]
            said = f"{request.method} {shown(request.url)} answered {answer.status} {answer.reason}{f': {body}' if body else ''}"
            raise self._failed(said, secrets.values())
        if self._call.media and _is_media(answer.content_type, self._call.accept_types):
            return _media_answer(answer)
        return ToolAnswer(without(self._text(answer, request), secrets.values()))

    def request(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> WebRequest:
        """Return the request that a call becomes.

        Raises:
            CallFailed: an argument that the address or a header takes is missing.
        """
        call, method = self._call, self._call.method
        rest = {name: value for name, value in arguments.items() if name not in self._placed}
        query = {name: rest.pop(name) for name in call.query_params if name in rest}
        if method not in _WITH_BODY:
            query, rest = query | rest, {}
        query |= call.static_query
        headers = {header: self._rendered(template, arguments, f"header '{header}'") for header, template in self._headers.items()}
        headers |= {**call.static_headers, **secrets}
        body = None
        if method in _WITH_BODY and (rest or call.static_body):
            content: Any = {**rest, **call.static_body}
            body = json_text(_mapped(content, call.body_mapping) if call.body_mapping else content).encode()
            headers = {"Content-Type": "application/json", **headers}
        try:
            url = _with_query(self._address(arguments), query)
        except ValueError as error:
            raise self._failed(f"its address is none: {error}", ()) from None
        return WebRequest(method, url, headers, body, self._timeout_s, MAX_MEDIA_BYTES if call.media else MAX_BODY_BYTES)

    def _address(self, arguments: Mapping[str, Any]) -> str:
        if self._url is None:
            return self._call.url
        quoted = {name: quote(value, safe=_SAFE_IN_ADDRESS) if isinstance(value, str) else value for name, value in arguments.items()}
        return self._rendered(self._url, quoted, "the address")

    def _rendered(self, template: Template, arguments: Mapping[str, Any], what: str) -> str:
        try:
            text = template.render(arguments)
        except ValueError as error:
            raise self._failed(f"the template of {what} failed: {error}", ()) from None
        if NO_VALUE in text:
            raise CallFailed("validation", f"{what} takes an argument that is missing")
        return text

    def _text(self, answer: WebAnswer, request: WebRequest) -> str:
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = {"result": answer.text()}
        value = redacted(value, frozenset(self._call.redact))
        if self._call.response_mapping:
            value = _mapped(value, self._call.response_mapping)
        if fault := self._output.fault(value) if self._output else "":
            raise self._failed(f"the answer of {shown(request.url)} does not fit the tool's output schema: {fault}", ())
        return shortened(value if isinstance(value, str) else json_text(value))

    def _failed(self, cause: str, secrets: Iterable[str]) -> CallFailed:
        return CallFailed("execution", without(f"tool '{self.spec.name}' cannot be called: {cause}", secrets))


def without(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every secret in it made unreadable."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, REDACTED)
    return text


def redacted(value: Any, fields: frozenset[str]) -> Any:
    """Return a JSON value whose `fields`, at any depth, are made unreadable."""
    if not fields:
        return value
    if isinstance(value, dict):
        return {key: REDACTED if key in fields else redacted(inner, fields) for key, inner in value.items()}
    return [redacted(inner, fields) for inner in value] if isinstance(value, list) else value


def _mapped(value: Any, expression: str) -> Any:
    import jmespath  # noqa: PLC0415 - 30 ms that only bundles with mappings need
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415

    try:
        return jmespath.search(expression, value)
    except JMESPathError as error:
        raise CallFailed("execution", f"the mapping '{expression}' failed: {error}") from None


def _with_query(url: str, query: Mapping[str, Any]) -> str:
    if not query:
        return url
    parts = urlsplit(url)
    added = urlencode([(name, value if isinstance(value, str) else _plain(value)) for name, value in query.items()])
    return urlunsplit(parts._replace(query="&".join(text for text in (parts.query, added) if text)))


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else json_text(value)


def _is_media(kind: str, accepted: Sequence[str]) -> bool:
    if accepted:
        return any(kind == each or (each.endswith("/*") and kind.startswith(each[:-1])) for each in accepted)
    return kind.partition("/")[0] in _MEDIA


def _media_answer(answer: WebAnswer) -> ToolAnswer:
    family = answer.content_type.partition("/")[0]
    data = base64.b64encode(answer.body).decode()
    media = {"mimeType": answer.content_type, "sizeBytes": len(answer.body), **_size(answer.body), "data": data}
    part = {"type": family if family in _MEDIA else "document", "media": media}
    return ToolAnswer(json_text({"mimeType": answer.content_type, "sizeBytes": len(answer.body)}), [part])


def _size(body: bytes) -> dict[str, int]:
    """Return width and height of a PNG, which says them in its first bytes; nothing of other pictures."""
    if body[:8] != b"\x89PNG\r\n\x1a\n" or body[12:16] != b"IHDR":
        return {}
    return {"width": int.from_bytes(body[16:20]), "height": int.from_bytes(body[20:24])}
