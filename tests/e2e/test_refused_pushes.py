"""What a push must not do: said in one line on the client's screen, with the remedy, and nothing is changed."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from reconcile.cluster.port import ARENA_PROJECT
from tests.e2e.installation import Checkout, Done, Namespace, ready, until

pytestmark = pytest.mark.e2e
FILE, LINK, FOLDER, MODULE = "100644", "120000", "40000", "160000"


@dataclass(frozen=True)
class Refusal:
    """A push to try after a first good one, and words that the client's stderr must have: the thing and the remedy."""

    push: Callable[[Checkout], Done]
    said: tuple[str, ...]


def tree(checkout: Checkout, *entries: tuple[str, str, str]) -> str:
    """Write a tree that git's own commands would refuse, from (mode, name, object id)."""
    raw = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)
    file = checkout.folder / ".git" / "forged-tree"
    file.write_bytes(raw)
    return checkout.git.run("hash-object", "-t", "tree", "-w", "--literally", str(file), cwd=checkout.folder)


def blob(checkout: Checkout, text: str) -> str:
    """Write a blob."""
    return checkout.git.run("hash-object", "-w", "--stdin", cwd=checkout.folder, text=text)


def push_forged(*entries: tuple[str, str, str]) -> Callable[[Checkout], Done]:
    """Return a push of a commit whose tree has one more folder with these (mode, name, content) entries; a module's content is its commit."""

    def push(checkout: Checkout) -> Done:
        inner = tree(checkout, *((mode, name, text if mode == MODULE else blob(checkout, text)) for mode, name, text in entries))
        root = tree(checkout, (FILE, "config.arena.yaml", blob(checkout, "x")), (FOLDER, "prompts", inner))
        commit = checkout.git.run("commit-tree", root, "-p", "HEAD", "-m", "forged", cwd=checkout.folder)
        return checkout.push(f"{commit}:refs/heads/main")

    return push


def push_branch(checkout: Checkout) -> Done:
    """Push to another branch than main."""
    checkout.commit({"more.yaml": "more"})
    return checkout.push("HEAD:refs/heads/feature")


def push_force(checkout: Checkout) -> Done:
    """Push a history that does not hold what the server has."""
    checkout.git.run("commit", "--amend", "--quiet", "-m", "another history", cwd=checkout.folder)
    return checkout.push("main", "--force")


def push_deletion(checkout: Checkout) -> Done:
    """Delete main."""
    return checkout.push(":main")


REFUSALS = [
    pytest.param(Refusal(push_branch, ("only 'refs/heads/main'", "git push", "HEAD:main")), id="another branch: the command for main"),
    pytest.param(
        Refusal(push_force, ("'main'", "merge instead", "arena.omnia.altairalabs.ai/allow-force=true")),
        id="a force push: the annotation that allows it",
    ),
    pytest.param(Refusal(push_deletion, ("'main'", "allow-force=true")), id="a deletion of main"),
    pytest.param(Refusal(push_forged((FILE, "..", "x")), ("prompts/..", "push again")), id="a path with .."),
    pytest.param(Refusal(push_forged((FILE, ".GIT", "x")), ("prompts/.GIT", "push again")), id="a .git in other letters"),
    pytest.param(
        Refusal(push_forged((LINK, "shared", "../../secrets")), ("prompts/shared", "leaves the tree", "push again")), id="a symlink that leaves"
    ),
    pytest.param(Refusal(push_forged((MODULE, "library", "1" * 40)), ("prompts/library", "submodule", "push again")), id="a submodule"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refused_push_says_why_and_changes_nothing(namespace: Namespace, refusal: Refusal) -> None:
    """The client's stderr has the path or ref and the remedy; refs, head and runs stay as they were."""
    checkout = namespace.project()
    commit = checkout.commit({"config.arena.yaml": "x"})
    assert checkout.push().code == 0
    until(lambda: _head(namespace) == commit, "the first push to be seen")
    refs = checkout.remote_refs()
    done = refusal.push(checkout)
    assert done.code != 0
    missing = [words for words in refusal.said if words not in done.err]
    assert not missing, done.err
    assert "Traceback" not in done.err
    assert checkout.remote_refs() == refs
    assert _head(namespace) == commit
    assert namespace.runs() == []


def test_annotated_project_takes_a_force_push(namespace: Namespace) -> None:
    """A project that carries the annotation takes the force push that was refused before."""
    checkout = namespace.project()
    checkout.commit({"config.arena.yaml": "x"})
    checkout.push()
    assert push_force(checkout).code != 0
    namespace.client.patch(
        ARENA_PROJECT, namespace.name, "support", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/allow-force": "true"}}}
    )
    assert checkout.push("main", "--force").code == 0
    head = checkout.git.run("rev-parse", "HEAD", cwd=checkout.folder)
    until(lambda: _head(namespace) == head, "the forced head to be seen")


def test_push_without_the_token_is_refused(namespace: Namespace) -> None:
    """A client that is not given this installation's token reads nothing and writes nothing."""
    checkout = namespace.project()
    checkout.commit({"config.arena.yaml": "x"})
    done = namespace.git.attempt("-c", f"credential.{namespace.server.url}.helper=", "push", checkout.url, "main", cwd=checkout.folder)
    assert done.code != 0
    assert "could not read Username" in done.err
    assert _head(namespace) is None


def test_push_to_a_project_that_does_not_exist_names_it(namespace: Namespace) -> None:
    """A push to an unknown project says so; it never makes one."""
    checkout = namespace.checkout("nowhere")
    checkout.commit({"config.arena.yaml": "x"})
    done = checkout.push()
    assert done.code != 0
    assert "nowhere" in done.err
    assert namespace.client.list(ARENA_PROJECT, namespace.name)["items"] == []


def test_project_without_a_commit_says_how_to_push(namespace: Namespace) -> None:
    """An empty project is not Ready, and its message is the command that fills it."""
    checkout = namespace.project()
    found = until(lambda: _settled(namespace), "the project to be looked at")
    reason, message = ready(found)
    assert reason == "RepositoryEmpty"
    assert f"git push {checkout.url}" in message


def _head(namespace: Namespace) -> str | None:
    project = namespace.client.get(ARENA_PROJECT, namespace.name, "support")
    head = (project.get("status") or {}).get("head") or {}
    commit = head.get("commit")
    return None if commit is None else str(commit)


def _settled(namespace: Namespace) -> dict[str, object] | None:
    project = namespace.client.get(ARENA_PROJECT, namespace.name, "support")
    return project if ready(project)[0] else None
