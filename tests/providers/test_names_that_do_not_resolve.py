"""What becomes of a provider whose name cannot be found."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from engine.errors import ProviderError
from engine.providers.credentials import ApiKey
from engine.providers.limits import Limiter, Limits
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.remote import Account, Manner, RemoteProvider, Service
from engine.providers.retry import Retries
from engine.providers.transport import Reach, Transport
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions
from foundation.addresses import Address, AddressPolicy
from foundation.clock import SystemClock
from tests.providers.vendor_server import VendorServer, answer

QUESTION = Request([Message("user", "question")])


@pytest.mark.parametrize(("failures", "patience_s", "attempts"), [(2, 60.0, 2), (99, 0.0, 0)], ids=["for a moment", "for good"])
async def test_a_name_that_is_not_found(server: VendorServer, failures: int, patience_s: float, attempts: int) -> None:
    """A resolver that fails for a moment costs attempts, one that fails for good ends as `unavailable`, which another attempt of the item may mend."""
    server.then(answer({"choices": [{"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}]}))
    asked: list[str] = []

    def find(host: str, _port: int) -> Sequence[Address]:
        asked.append(host)
        if len(asked) <= failures:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [ip_address("127.0.0.1")]

    clock, transport = SystemClock(), Transport(find)
    pool = transport.pool(Reach(AddressPolicy(allows_private=True)))
    service = Service(OpenAiChat(OpenAiOptions("m")), f"http://models.test:{server.port}/v1", ApiKey("sk-1"))
    account = Account(Limiter(Limits(), clock), Retries(clock, patience_s=patience_s, chance=lambda: 1.0))
    provider = RemoteProvider(service, pool, account, Manner(), clock)
    try:
        if attempts:
            reply = await provider.complete(QUESTION)
            assert (reply.text, len(reply.attempts)) == ("42", attempts)
            assert {attempt.kind for attempt in reply.attempts} == {"unavailable"}
        else:
            with pytest.raises(ProviderError, match="name resolution") as raised:
                await provider.complete(QUESTION)
            assert (raised.value.kind, raised.value.transient) == ("unavailable", True)
    finally:
        await transport.close()
