"""The command line against a running server: objects, runs, logs, progress."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN
from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Namespace, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
MANIFESTS = f"""
apiVersion: {ARENA_PROJECT.api_version}
kind: ArenaProject
metadata: {{name: support}}
spec: {{hosted: {{}}}}
---
apiVersion: {ARENA_JOB.api_version}
kind: ArenaJob
metadata: {{name: eval, labels: {{team: a}}}}
spec:
  sourceRef: {{name: support}}
  trials: 2
"""


@pytest.fixture
def applied(namespace: Namespace) -> Namespace:
    """Return a namespace to which a project and a job were applied."""
    done = namespace.arena("apply", "-f", "-", text=MANIFESTS)
    assert done.code == 0, done.err
    return namespace


def test_apply_says_what_it_did(applied: Namespace) -> None:
    """A first apply creates, the same again changes nothing, a changed file configures, and a field that was taken out goes."""
    group = ARENA_JOB.group
    assert applied.arena("apply", "-f", "-", text=MANIFESTS).out.splitlines() == [
        f"arenaproject.{group}/support unchanged",
        f"arenajob.{group}/eval unchanged",
    ]
    changed = applied.arena("apply", "-f", "-", text=MANIFESTS.replace("trials: 2", "verbose: true"))
    assert changed.out.splitlines()[1] == f"arenajob.{group}/eval configured"
    spec = applied.client.get(ARENA_JOB, applied.name, "eval")["spec"]
    assert (spec["verbose"], "trials" in spec) == (True, False)


def test_refused_object_does_not_stop_the_others(namespace: Namespace) -> None:
    """Apply goes on after an object that is refused, names field and near miss, and exits 2."""
    done = namespace.arena("apply", "-f", "-", text=MANIFESTS.replace("trials: 2", "trails: 2").replace("hosted: {}", "hosted: {seeds: {}}"))
    assert done.code == 2
    assert "spec.trails" in done.err
    assert "trials" in done.err
    assert "spec.hosted.seeds" in done.err
    fine = namespace.arena("apply", "-f", "-", text=MANIFESTS.replace("hosted: {}", "hosted: {seeds: {}}"))
    assert fine.code == 2
    assert fine.out == f"arenajob.{ARENA_JOB.group}/eval created\n"


def test_apply_shows_what_will_not_work(namespace: Namespace) -> None:
    """What admission warns of is a warning on stderr; the object is taken."""
    done = namespace.arena("apply", "-f", "-", text=MANIFESTS.replace("  trials: 2", "  baseline: {ref: main}"))
    assert done.code == 0
    assert "warning: spec.baseline is not supported yet (NotSupported)" in done.err
    assert "warning" not in done.out


def test_apply_reads_a_folder(namespace: Namespace, tmp_path: Path) -> None:
    """A folder stands for its YAML and JSON files; another object than one of ours is refused by name."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text(MANIFESTS)
    (folder / "b.json").write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}))
    (folder / "notes.txt").write_text("no manifest")
    done = namespace.arena("apply", "-f", str(folder))
    assert (done.code, len(done.out.splitlines())) == (0, 3)
    stranger = namespace.arena("apply", "-f", "-", text="apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n")
    assert stranger.code == 2
    assert "Deployment of apps/v1" in stranger.err


@pytest.mark.parametrize("kind", ["arenajobs", "arenajob", "aj", f"arenajob.{ARENA_JOB.group}"])
def test_kind_by_any_of_its_names(applied: Namespace, kind: str) -> None:
    """A kind goes by plural, singular, short and full name."""
    assert applied.arena("get", kind, "-o", "name").out == f"arenajob.{ARENA_JOB.group}/eval\n"


def test_get_formats(applied: Namespace) -> None:
    """A table has the printer columns, wide has more, YAML and JSON are the objects; one name gives one object."""
    table = applied.arena("get", "aj").out.splitlines()
    assert table[0].split("   ")[:2] == ["NAME", "SOURCE"]
    assert table[1].split()[:3] == ["eval", "support", "evaluation"]
    wide = applied.arena("get", "aj", "-o", "wide").out.splitlines()
    assert "SCHEDULE" in wide[0]
    assert "SCHEDULE" not in table[0]
    listing = json.loads(applied.arena("get", "aj", "-o", "json").out)
    assert (listing["kind"], [item["metadata"]["name"] for item in listing["items"]]) == ("ArenaJobList", ["eval"])
    single = yaml.safe_load(applied.arena("get", "aj/eval", "-o", "yaml").out)
    assert (single["kind"], single["spec"]["trials"]) == ("ArenaJob", 2)


def test_get_by_label(applied: Namespace) -> None:
    """-l keeps the objects whose labels are equal; nothing found is said on stderr."""
    assert applied.arena("get", "aj", "-l", "team=a", "-o", "name").out.count("\n") == 1
    none = applied.arena("get", "aj", "-l", "team=b")
    assert (none.code, none.out, none.err) == (0, "", "No arenajobs found.\n")


def test_get_of_a_missing_object(applied: Namespace) -> None:
    """An object that does not exist is an error."""
    done = applied.arena("get", "aj", "nothing")
    assert done.code == 2
    assert "nothing" in done.err
    assert "does not exist" in done.err


def test_get_watch_prints_changes(applied: Namespace) -> None:
    """--watch goes on after the list with a line for each change, until it is interrupted."""
    words = [*ARENA, "get", "aj", "--watch"]
    environment = {**applied.server.environment, "ARENA_NAMESPACE": applied.name}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    header, first = process.stdout.readline(), process.stdout.readline()
    applied.client.patch(ARENA_JOB, applied.name, "eval", {"spec": {"type": "loadtest"}})
    while "loadtest" not in (changed := process.stdout.readline()):
        assert changed.startswith("eval   support   evaluation")
    assert first.startswith("eval   support   evaluation")
    assert changed[header.index("ACTIVE")].isdigit(), "a change stands below the columns of the list"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert process.stderr.read() == ""
    process.stdout.close()
    process.stderr.close()


def test_describe_shows_spec_conditions_and_events(applied: Namespace) -> None:
    """Describe has the spec, the status with its conditions, and the object's events."""
    until(lambda: "RunCreated" in applied.arena("describe", "aj", "eval").out, "the first run's event")
    text = applied.arena("describe", "aj/eval").out
    for words in ("Name:         eval", "Labels:       team=a", "Trials:  2", "Conditions:", "RunCreated"):
        assert words in text


def test_delete_waits_until_the_object_is_gone(applied: Namespace) -> None:
    """Delete returns when the finalizers have let go, runs of a deleted job go with it."""
    until(applied.runs, "the first run")
    done = applied.arena("delete", "-f", "-", text=MANIFESTS)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f'arenajob.{ARENA_JOB.group} "eval" deleted'
    assert applied.client.list(ARENA_PROJECT, applied.name)["items"] == []
    until(lambda: applied.client.list(ARENA_RUN, applied.name)["items"] == [], "the runs to go")
    again = applied.arena("delete", "aj", "eval")
    assert again.code == 2
    assert "does not exist" in again.err


def run_of(namespace: Namespace, *, answer: str = "never") -> str:
    """Push a small bundle, wait for the run of the job, and return its name."""
    checkout = namespace.project()
    checkout.commit(bundle(answer=answer))
    checkout.push()
    namespace.job()
    return str(namespace.ended_run()["metadata"]["name"])


def test_runs_show_and_logs(namespace: Namespace) -> None:
    """`runs` lists, `show` has the matrix and the line that repeats a failure, `--failed` the conversation, `logs` the workers' lines."""
    name = run_of(namespace)
    listed = namespace.arena("runs", "eval").out.splitlines()
    assert listed[0].split()[:3] == ["NAME", "JOB", "PHASE"]
    assert listed[1].split()[:3] == [name, "eval", "Failed"]
    assert "TRIGGER" in namespace.arena("runs", "--wide").out
    shown = namespace.arena("show", name).out
    assert shown.startswith(f"failed  {name}  commit ")
    assert "arena eval . --scenario s0 --provider model" in shown
    assert "Can I return my order?" not in shown
    assert "Can I return my order?" in namespace.arena("show", name, "--failed").out
    followed = namespace.arena("logs", name, "--follow")
    assert followed.code == 0
    assert f"{name}-worker-0: " in followed.out
    assert "worker_left" in followed.out


def test_run_without_wait_prints_the_name(namespace: Namespace) -> None:
    """`arena run` alone prints the run's name on stdout and what to type next on stderr."""
    namespace.project()
    namespace.job()
    done = namespace.arena("run", "eval")
    assert done.code == 0
    assert done.out.strip() in {run["metadata"]["name"] for run in namespace.runs()}
    assert "arena get arun" in done.err


def test_interrupted_wait_leaves_the_run_alone(namespace: Namespace) -> None:
    """Ctrl-c while waiting ends the command with 130 and says how to look again; the run goes on."""
    checkout = namespace.project()
    namespace.job()
    environment = {**namespace.server.environment, "ARENA_NAMESPACE": namespace.name}
    process = subprocess.Popen([*ARENA, "run", "eval", "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    assert process.stderr is not None
    assert "is not Ready" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "the run goes on: arena get arun eval-" in err
    assert "to stop it: arena cancel eval-" in err
    checkout.commit(bundle())
    checkout.push()
    assert namespace.ended_run(count=2)["status"]["phase"] == "Succeeded"


def test_run_of_a_suspended_job_is_refused(namespace: Namespace) -> None:
    """A suspended job starts no run by hand either; the hint says what to change."""
    namespace.project()
    namespace.job(spec={"suspend": True})
    done = namespace.arena("run", "eval")
    assert done.code == 2
    assert "suspended" in done.err
    assert "spec.suspend" in done.err
    assert namespace.runs() == []


def test_run_of_a_ref_tests_that_commit(namespace: Namespace) -> None:
    """--ref tests an older commit than the job's ref names now."""
    checkout = namespace.project()
    good = checkout.commit(bundle())
    checkout.push()
    checkout.commit(bundle(answer="never"))
    checkout.push()
    namespace.job(spec={"suspend": True})
    namespace.client.patch(ARENA_JOB, namespace.name, "eval", {"spec": {"suspend": False}})
    done = namespace.arena("run", "eval", "--ref", good, "--wait")
    assert done.code == 0, done.out + done.err
    assert good[:12] in done.out


def test_git_credential_answers_for_this_server_only(namespace: Namespace) -> None:
    """The token is given for the address of this server, and nothing for any other host or operation."""
    host = namespace.server.url.removeprefix("http://")
    ours = namespace.arena("git-credential", "get", text=f"protocol=http\nhost={host}\n")
    assert ours.out == f"username=arena\npassword={namespace.server.state.read_token()}\n"
    assert namespace.arena("git-credential", "get", text="protocol=http\nhost=example.com\n").out == ""
    assert namespace.arena("git-credential", "store", text=f"protocol=http\nhost={host}\n").out == ""


def test_doctor_finds_the_running_server_and_its_queue(namespace: Namespace) -> None:
    """Doctor asks the server and the queue server that it started, wherever its socket is; what it says of others' projects is theirs."""
    told = namespace.arena("doctor").out.splitlines()
    assert [line for line in told if " server at " in line] == [f"ok   server at {namespace.server.url}"]
    assert [line for line in told if line.endswith(" queue server")] == ["ok   queue server"]


def test_greeting_is_followed_by_a_push(namespace: Namespace) -> None:
    """What `arena up` prints is enough for a push: the clone URL and the line that gives git its token."""
    greeting = namespace.server.greeting
    line = next(line.strip() for line in greeting.splitlines() if "credential." in line).partition("git config")[2]
    git = namespace.git
    git.run("config", "--global", "--unset", f"credential.{namespace.server.url}.helper")
    git.run("config", *shlex.split(line))
    checkout = namespace.project()
    assert checkout.url == namespace.server.url + "/git/NAMESPACE/PROJECT.git".replace("NAMESPACE", namespace.name).replace("PROJECT", "support")
    checkout.commit(bundle())
    assert checkout.push().code == 0


@pytest.fixture
def screen() -> Iterator[str]:
    """Return the name of a tmux session: a terminal of 100 columns that a test can type into and look at."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    name = f"arena-{uuid4().hex[:8]}"
    subprocess.run(["tmux", "-L", name, "new-session", "-d", "-s", name, "-x", "100", "-y", "30", "sh"], check=True, env={**os.environ, "PS1": "$ "})
    yield name
    subprocess.run(["tmux", "-L", name, "kill-server"], check=True)


def look(screen: str) -> str:
    """Return what stands on the screen."""
    shown = subprocess.run(["tmux", "-L", screen, "capture-pane", "-p", "-t", screen], check=True, capture_output=True, text=True)
    return shown.stdout


def test_progress_on_a_terminal(namespace: Namespace, screen: str, tmp_path: Path) -> None:
    """`run --wait` on a terminal rewrites one line: bar, counts, failures, spend of the budget, time left; the verdict takes its place."""
    checkout = namespace.project()
    files = dict(bundle(trials=16, latency_ms=250, scenarios=2))
    files["scenarios/s1.yaml"] = files["scenarios/s1.yaml"].replace("30 days", "90 days").replace("trials: 16", "trials: 3")
    files["providers/model.yaml"] += "  pricing:\n    input_cost_per_1k: 0.5\n    output_cost_per_1k: 1.5\n"
    checkout.commit(files)
    checkout.push()
    namespace.job(spec={"budgetLimit": "5.00", "workers": {"concurrency": 2}})
    namespace.ended_run()
    variables = {"ARENA_STATE": str(namespace.server.state.root), "ARENA_NAMESPACE": namespace.name}
    script = tmp_path / "run.sh"
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    script.write_text(f"{exports}clear\n{shlex.join(ARENA)} run eval --wait\necho exit $?\n")
    subprocess.run(["tmux", "-L", screen, "send-keys", "-t", screen, f"sh {script}", "Enter"], check=True)

    def moving() -> str | None:
        shown = look(screen)
        return shown if "█" in shown and "left" in shown else None

    shown = until(moving, "a moving progress line")
    line = next(line for line in shown.splitlines() if "█" in line)
    assert "/19" in line
    assert " of $5.00" in line
    assert shown.count("█" * 2) <= line.count("█" * 2) + 1
    ended = until(lambda: text if "exit 1" in (text := look(screen)) else None, "the verdict")
    assert "░" not in ended
    assert "failed  eval-" in ended


@pytest.mark.parametrize("command", ["show", "logs", "cancel"])
def test_unknown_run_is_refused_with_what_there_is(namespace: Namespace, command: str) -> None:
    """A run that is not there is named, with the command that lists the others and why one may be gone."""
    done = namespace.arena(command, "gone")
    assert done.code == 2
    assert "cannot find run 'gone'" in done.err
    assert f"arena runs -n {namespace.name}" in done.err
    assert "failedRunsHistoryLimit" in done.err


def test_show_ends_with_the_folder_of_the_files(namespace: Namespace) -> None:
    """The last line of show names the folder that holds junit.xml and the other files."""
    checkout = namespace.project()
    checkout.commit(bundle())
    checkout.push()
    namespace.job()
    name = namespace.ended_run()["metadata"]["name"]
    folder = Path(namespace.arena("show", name).out.rstrip().splitlines()[-1].removeprefix("  files "))
    assert {"junit.xml", "report.md", "summary.json", "results.jsonl"} <= {file.name for file in folder.iterdir()}


def test_verdict_counts_the_failures_that_it_does_not_show(namespace: Namespace) -> None:
    """The verdict of a run with many failures shows the first five and says how many more there are."""
    checkout = namespace.project()
    checkout.commit(bundle(answer="never", trials=7))
    checkout.push()
    namespace.job()
    lines = namespace.arena("run", "eval", "--wait").out.splitlines()
    assert sum(line.startswith("fail  s0 x model") for line in lines) == 5
    assert lines[-2] == "  and 2 more"
    assert lines[-1].endswith(f"--failed -n {namespace.name}")


def test_unknown_object_is_refused_with_what_lists_the_others(namespace: Namespace) -> None:
    """An object that is not there is named, with the command that lists those there are."""
    done = namespace.arena("run", "gone")
    assert done.code == 2
    assert f"{namespace.name}/gone" in done.err
    assert f"hint: `arena get arenajobs -n {namespace.name}`" in done.err


def test_file_that_is_not_there_is_refused_in_words(namespace: Namespace) -> None:
    """Apply says which file it cannot read and why, without the words of Python."""
    done = namespace.arena("apply", "-f", "/nowhere.yaml")
    assert (done.code, done.err) == (2, "error: cannot read '/nowhere.yaml': no such file or directory\n")


def test_failed_check_is_explained_below_its_message(namespace: Namespace) -> None:
    """Show --failed has the check's own message and, below, what the check found; the short form has the message alone."""
    files = dict(bundle(answer="never"))
    scenario = files["scenarios/s0.yaml"].replace("          params:", "          message: Must tell the days\n          params:")
    checkout = namespace.project()
    checkout.commit({**files, "scenarios/s0.yaml": scenario})
    checkout.push()
    namespace.job()
    name = namespace.ended_run()["metadata"]["name"]
    short = namespace.arena("show", name).out.splitlines()
    long = namespace.arena("show", name, "--failed").out.splitlines()
    told = "  turn 1: content_includes: Must tell the days"
    assert short[short.index(told) + 1].startswith("  arena eval")
    explained = long[long.index(told) + 1]
    assert explained.startswith("    ")
    assert "30 days" in explained
