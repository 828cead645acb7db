"""For every rule of the kinds: a spec that keeps it and one that breaks it."""

from typing import Any

from reconcile.kinds.names import API_VERSION

Spec = dict[str, Any]
JOB: Spec = {"sourceRef": {"name": "src"}}
RUN: Spec = {"jobRef": {"name": "j"}, "template": JOB}
BEDROCK: Spec = {"type": "claude", "model": "m", "platform": {"type": "bedrock"}, "auth": {"type": "workloadIdentity"}}
SECRET = {"name": "s"}
URL = "https://git.example.com/team/prompts.git"


def run_with(**template: Any) -> Spec:
    """Return a run's spec with more in its template."""
    return {**RUN, "template": {**JOB, **template}}


def on(platform: Spec, auth: Spec, kind: str = "claude") -> Spec:
    """Return a provider on a platform."""
    return {"type": kind, "model": "m", "platform": platform, "auth": auth}


IDENTITY = {"type": "workloadIdentity"}
# kind, words of the rule's message, a spec that keeps it, one that breaks it: (old, new) for a transition
EXAMPLES: list[tuple[str, str, Any, Any]] = [
    ("ArenaJob", "output needs the block", {**JOB, "output": {"type": "pvc", "pvc": {"claimName": "c"}}}, {**JOB, "output": {"type": "pvc"}}),
    ("ArenaJob", "budgetLimit has been removed", {**JOB, "loadTest": {}}, {**JOB, "loadTest": {"budgetLimit": 25}}),
    ("ArenaJob", "exactly one of ref and run", {**JOB, "baseline": {"ref": "main"}}, {**JOB, "baseline": {"ref": "main", "run": "r"}}),
    ("ArenaRun", "output needs the block", run_with(output={"type": "s3", "s3": {"bucket": "b"}}), run_with(output={"type": "s3"})),
    ("ArenaRun", "budgetLimit has been removed", run_with(loadTest={}), run_with(loadTest={"budgetLimit": "1"})),
    ("ArenaRun", "exactly one of ref and run", run_with(baseline={"run": "r"}), run_with(baseline={})),
    ("ArenaRun", "template is frozen", (RUN, RUN), (run_with(providers={"a": []}), RUN)),
    ("ArenaRun", "job cannot be changed", (RUN, RUN), ({**RUN, "jobRef": {"name": "other"}}, RUN)),
    ("ArenaRun", "trigger cannot be changed", (RUN, RUN), ({**RUN, "trigger": "Push"}, RUN)),
    ("ArenaProject", "exactly one of hosted and external", {"hosted": {}}, {"hosted": {}, "external": {"url": URL}}),
    ("ArenaProject", "stays hosted or external", ({"hosted": {}}, {"hosted": {}}), ({"hosted": {}}, {"external": {"url": URL}})),
    (
        "ArenaProject",
        "hash of a repository",
        ({"hosted": {}}, {"hosted": {"objectFormat": "sha1"}}),
        ({"hosted": {}}, {"hosted": {"objectFormat": "sha256"}}),
    ),
    ("ArenaProject", "only https remotes", {"external": {"url": URL}}, {"external": {"url": "ssh://git.example.com/p.git"}}),
    ("ArenaProject", "must not hold credentials", {"external": {"url": URL}}, {"external": {"url": "https://u:p@git.example.com/p.git"}}),
    ("ArenaProject", "not a URL of a git remote", {"external": {"url": "https://h:8443/p"}}, {"external": {"url": "https://h/p.git?x=1"}}),
    ("ArenaProject", "every 10s at most", {"external": {"url": URL, "pollInterval": "10s"}}, {"external": {"url": URL, "pollInterval": "9.9s"}}),
    ("Provider", "needs a model", {"type": "mock"}, {"type": "claude", "model": ""}),
    ("Provider", "does not have this role", {"type": "openai", "model": "m", "role": "stt"}, {"type": "claude", "model": "m", "role": "stt"}),
    ("Provider", "go together", BEDROCK, {"type": "claude", "model": "m", "auth": IDENTITY}),
    ("Provider", "does not take this auth", BEDROCK, on({"type": "bedrock"}, {"type": "serviceAccount", "credentialsSecretRef": SECRET})),
    ("Provider", "does not offer", on({"type": "azure", "endpoint": "e"}, IDENTITY, "openai"), on({"type": "bedrock"}, IDENTITY, "gemini")),
    (
        "Provider",
        "for type mock only",
        {"type": "mock", "mock": {"configMap": {"name": "a", "key": "b"}}},
        {"type": "claude", "model": "m", "mock": {"configMap": {"name": "a", "key": "b"}}},
    ),
    ("Provider", "vertex needs a project", on({"type": "vertex", "project": "p"}, IDENTITY), on({"type": "vertex", "project": ""}, IDENTITY)),
    ("Provider", "azure needs an endpoint", on({"type": "azure", "endpoint": "e"}, IDENTITY), on({"type": "azure"}, IDENTITY)),
    (
        "Provider",
        "needs credentials",
        on({"type": "bedrock"}, {"type": "accessKey", "credentialsSecretRef": SECRET}),
        on({"type": "bedrock"}, {"type": "accessKey"}),
    ),
    (
        "Provider",
        "comes from one place",
        {"type": "claude", "model": "m", "credential": {"envVar": "K"}},
        {"type": "claude", "model": "m", "credential": {"envVar": "K", "filePath": "/k"}},
    ),
    (
        "Workspace",
        "exactly one of existingSecret",
        {"namespace": {"name": "a"}, "services": [{"name": "g", "redis": {"host": "h", "port": 6380}}]},
        {"namespace": {"name": "a"}, "services": [{"name": "g", "redis": {"port": 6380}}]},
    ),
]
STATUS_FIELDS = {
    "source": ({"repository": "hosted", "commit": "a"}, {"repository": "hosted", "commit": "b"}),
    "queue": ({"source": "Default"}, {"source": "ServiceGroup"}),
    "plan": ({"digest": "sha256:a"}, {"digest": "sha256:b"}),
    "workers": (2, 3),
}


def an_object(kind: str, spec: Spec) -> dict[str, Any]:
    """Return an object of a kind."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
