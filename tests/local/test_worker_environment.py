"""What worker processes inherit: what any program needs, what is Arena's own, and what the operator names. Keys of a shell stay in the shell."""

import os

import pytest

from arena.settings import worker_environment

KEY = "sk-of-the-operator"


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process the environment of somebody's shell."""
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "KUBECONFIG", "REDIS_URL", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("ARENA_LEASE_SECONDS", "2")
    monkeypatch.setenv("PATH", "/usr/bin")


def test_keys_of_the_shell_are_not_passed_on() -> None:
    """A bundle may name variables of its worker, and who can push a bundle need not be the owner of these keys."""
    passed = worker_environment()
    assert KEY not in passed.values()
    assert (passed["PATH"], passed["ARENA_LEASE_SECONDS"]) == ("/usr/bin", "2")


def test_what_the_operator_names_is_passed_on() -> None:
    """One variable at a time, by name; one that is not set is not made up."""
    passed = worker_environment(["OPENAI_API_KEY", "ABSENT"])
    assert passed["OPENAI_API_KEY"] == KEY
    assert "ABSENT" not in passed
    assert "GITHUB_TOKEN" not in passed


def test_a_worker_is_nobody_at_a_cloud() -> None:
    """The operator's profile, its tools' logins and the machine's own identity stay out, unless the operator names them."""
    assert worker_environment()["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    session = pytest.importorskip("botocore.session")
    assert {"CLOUDSDK_CONFIG", "NO_GCE_CHECK", "AZURE_TOKEN_CREDENTIALS"} <= worker_environment().keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        for name, value in worker_environment().items():
            patch.setenv(name, value)
        assert session.get_session().get_credentials() is None


def test_the_address_of_the_queue_is_never_inherited() -> None:
    """Each run has its own, from its own Secret."""
    assert "REDIS_URL" not in worker_environment(["REDIS_URL"])
