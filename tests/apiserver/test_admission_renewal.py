"""Certificates of our webhook and a real API server: it is reached at every moment of a renewal, and again after a loss."""

import base64
import socket
import ssl
from datetime import datetime, timedelta
from pathlib import Path

from foundation.clock import SystemClock
from hooks.admission_registration import webhook_configuration
from hooks.certificates import AUTHORITIES, CHAIN, KEY, issue
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import SECRET
from tests.apiserver import webhook as served
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL
from tests.apiserver.webhook import CONFIGURATIONS, NAME, REFUSED, Webhook, a_job, jobs_path, say, serving_webhook, until

pytestmark = REAL


def shown_by(port: int) -> bytes:
    """Return the certificate that a port shows, in DER."""
    context = ssl._create_unverified_context()  # noqa: S323 - only looked at
    with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw) as secured:
        return secured.getpeercert(binary_form=True) or b""


class ShiftedClock(SystemClock):
    """The system's clock, moved in days."""

    days = 0.0

    def now(self) -> datetime:
        """Return the wall clock, moved."""
        return super().now() + timedelta(days=self.days)


def bundle(plane: ControlPlane) -> str:
    """Return whom the API server trusts."""
    text: str = plane.json(f"{CONFIGURATIONS}/{NAME}")["webhooks"][0]["clientConfig"]["caBundle"]
    return text


def test_renewal_is_not_noticed(control_plane: ControlPlane) -> None:
    """A certificate near its end gets a successor, which API servers trust first and see a day later; at no moment is the webhook not reached."""
    clock = ShiftedClock()
    clock.days = -60.5
    with serving_webhook(control_plane, clock) as webhook:
        seen = [(shown_by(webhook.port), bundle(control_plane))]
        for days in (0, 1.1):
            clock.days = days
            assert webhook.refresh()
            seen.append((shown_by(webhook.port), bundle(control_plane)))
            assert say(control_plane, "POST", jobs_path(), a_job(**REFUSED)).code == 422
        assert [seen[0][0] == seen[1][0], seen[1][0] == seen[2][0]] == [True, False]
        assert [seen[0][1] == seen[1][1], seen[1][1] == seen[2][1]] == [False, True]


async def test_a_lost_secret_is_made_again(cluster: KubeCluster, control_plane: ControlPlane) -> None:
    """When somebody removes the Secret, the next look makes a new one, tells the API server, and serves it, without a restart."""
    with serving_webhook(control_plane) as webhook:
        before = shown_by(webhook.port)
        await cluster.delete(SECRET, served.SECRET.namespace, served.SECRET.name)
        assert webhook.refresh()
        assert shown_by(webhook.port) != before
        until(lambda: say(control_plane, "POST", jobs_path(), a_job(**REFUSED)).code == 422, "the API server trusts the new authority")


def test_trust_that_somebody_took_away(control_plane: ControlPlane) -> None:
    """A caBundle that was overwritten, as by applying the manifest again, is back after the next look."""
    with serving_webhook(control_plane) as webhook:
        before = bundle(control_plane)
        stored = control_plane.json(f"{CONFIGURATIONS}/{NAME}")
        applied = {**webhook_configuration(NAME, {"url": webhook.url}), "metadata": stored["metadata"]}
        said = say(control_plane, "PUT", f"{CONFIGURATIONS}/{NAME}", applied)
        assert "caBundle" not in said.body["webhooks"][0]["clientConfig"]
        assert webhook.refresh()
        assert bundle(control_plane) == before


def test_mounted_certificates(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A certificate that cert-manager exchanges in the mounted files is served and trusted at the next look, even if its authority is another."""

    def mount() -> str:
        for name, text in zip((CHAIN, KEY, AUTHORITIES), issue(["127.0.0.1"], SystemClock().now()), strict=True):
            (tmp_path / name).write_bytes(text)
        return base64.b64encode((tmp_path / AUTHORITIES).read_bytes()).decode()

    first = mount()
    with serving_webhook(control_plane, folder=tmp_path) as webhook:
        assert bundle(control_plane) == first
        second = mount()
        assert webhook.refresh()
        assert bundle(control_plane) == second
        until(lambda: say(control_plane, "POST", jobs_path(), a_job(**REFUSED)).code == 422, "the API server trusts the new authority")


def test_replicas_share_one_certificate(control_plane: ControlPlane) -> None:
    """A second replica serves what the first has made, and the API server trusts both alike."""
    with serving_webhook(control_plane) as first:
        second = Webhook(control_plane)
        second.start()
        try:
            assert shown_by(first.port) == shown_by(second.port)
        finally:
            second.stop()
