"""Which addresses a remote's name may lead to."""

from foundation.addresses import AddressPolicy
from gitops.errors import RemoteCause
from tests.mirror.conftest import Mirrored


async def test_one_bad_address_refuses_the_name(mirrored: Mirrored) -> None:
    """A name with a public and a private address is refused whole, and the operator is told what to allow."""
    mirrored.start(AddressPolicy(), {"git.example.test": ["93.184.216.34", "10.0.0.5"]})
    failure = await mirrored.aim("https://git.example.test/team/prompts").failure()
    assert failure.cause is RemoteCause.ADDRESS
    assert failure.message == "cannot fetch 'https://git.example.test/team/prompts': host 'git.example.test' has address 10.0.0.5, which is private"
    assert failure.hint == "an operator may allow it: arena up --allow-network 10.0.0.5/32"


async def test_loopback_is_refused_by_default(mirrored: Mirrored) -> None:
    """Without an allowed network even this machine's own host is out of reach, at every fetch."""
    mirrored.start(AddressPolicy())
    for _ in range(2):
        assert (await mirrored.failure()).cause is RemoteCause.ADDRESS


async def test_a_name_that_flips_is_refused_at_the_next_fetch(mirrored: Mirrored) -> None:
    """Addresses are checked each time, so a name that led to an allowed address yesterday is refused when it leads elsewhere today (gogs/gogs#8324, go-gitea/gitea#14984)."""
    addresses = {"git.example.test": ["127.0.0.1"]}
    mirrored.start(names=addresses)
    mirrored.aim(mirrored.remote.url.replace("localhost", "git.example.test"))
    await mirrored.fetch()
    addresses["git.example.test"] = ["169.254.169.254"]
    assert (await mirrored.failure()).cause is RemoteCause.ADDRESS
