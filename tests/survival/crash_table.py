"""The crash points of the program, each with the scenario that passes it, and what a death there leaves behind.

The one list of their names: a point that is in the code and not here, or here and not in the code, fails a test.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One death: at the N-th pass over a crash point (`name:N`), in a scenario. `again`: items of it may run a second time."""

    spec: str
    scenario: str
    leaves: str
    again: bool = False

    @property
    def point(self) -> str:
        """Return the crash point's name."""
        return self.spec.partition(":")[0]


TABLE: tuple[Row, ...] = (
    # a repository and its first commit
    Row("create.prepared", "run", "a repository under a temporary name"),
    Row("seed.checked", "seed", "a repository without a commit"),
    Row("seed.objects_written", "seed", "a commit that no ref names"),
    Row("seed.ref_written", "seed", "a seeded repository of which the status knows nothing"),
    # a push
    Row("push.body_received", "run", "a receive-pack that has its whole pack, and nobody to answer for it"),
    Row("push.checked", "run", "a pack in quarantine that was found good"),
    Row("push.received", "run", "a main that has moved, and nobody was told"),
    Row("push.notified", "run", "a push that is in, whose client never heard"),
    # a mirror is fetched
    Row("mirror.created", "mirror", "an empty mirror"),
    Row("mirror.locked", "mirror", "the locks of a fetch that never began"),
    Row("mirror.started", "mirror", "a git that fetches for nobody"),
    Row("mirror.fetched", "mirror", "a mirror whose HEAD and whose project know nothing of what came"),
    Row("mirror.head_moved", "mirror", "a whole mirror, and nobody was told what changed"),
    Row("fetch.status_written", "mirror", "a fetch whose head is not exported, and whose request is not answered"),
    Row("remote.forgotten", "mirror", "a project without the mirror that its status speaks of"),
    # an export
    Row("export.file", "run", "an empty directory under a temporary name"),
    Row("export.file:3", "run", "half a snapshot under a temporary name"),
    Row("export.written", "run", "a whole snapshot under a temporary name, perhaps not on disk"),
    Row("export.synced", "run", "a whole snapshot without its manifest"),
    Row("export.recorded", "run", "a manifest whose snapshot has not its name yet"),
    Row("export.renamed", "run", "a snapshot that no status names"),
    Row("head.written", "run", "a HEAD file that is ahead of the project's status"),
    # a job starts a run
    Row("start.created", "run", "a run that its job does not know"),
    Row("start.status_written", "run", "a job that knows its run"),
    # a run is pinned, planned, put
    Row("pin.ref_written", "run", "a keep-ref of a run without a source"),
    Row("pin.status_written", "run", "a pinned run"),
    Row("export.status_written", "run", "a run whose snapshot is known"),
    Row("plan.made", "run", "nothing: the plan was in memory"),
    Row("plan.written", "run", "a plan file that no status names"),
    Row("plan.status_written", "run", "a planned run without a queue"),
    Row("queue.pinned", "run", "keys without a plan"),
    Row("queue.plan_published", "run", "keys with a plan and no item"),
    Row("put.before", "run", "a queue without its first chunk"),
    Row("put.after", "run", "a queue that is complete, and no Job"),
    Row("put.after:1", "chunks", "the first of three chunks"),
    Row("put.before:3", "chunks", "two of three chunks, and nobody put the last"),
    Row("put.after:3", "chunks", "all chunks, and no Job"),
    # workers
    Row("workers.status_written", "run", "a number of workers, and no Job"),
    Row("access.secret_written", "run", "a Secret whose user is not there"),
    Row("access.user_made", "run", "a user of the queue, and no Job"),
    Row("workers.created", "run", "a Job that the status does not tell of"),
    Row("workers.process_started", "run", "a worker process that no record names"),
    Row("worker.leased", "run", "leases of a dead worker"),
    Row("worker.line_written", "run", "lines that nobody counted", again=True),
    Row("worker.counted", "run", "records whose worker does not know that they count"),
    # a stop
    Row("stop.status_written", "cancel", "a stop that the queue has not heard of"),
    Row("stop.issued", "cancel", "a stopped queue whose workers go on"),
    Row("stop.workers_ended", "cancel", "a stopped queue without workers"),
    Row("stop.rest_counted", "cancel", "a drained run without a verdict"),
    # a settling
    Row("settle.begun", "run", "a drained run without a verdict"),
    Row("settle.written", "run", "four files under temporary names"),
    Row("settle.renamed", "run", "four files, and no word of them"),
    Row("settle.files_written", "run", "four files, and no verdict in the status"),
    Row("settle.keys_before", "run", "a verdict, and the keys still there"),
    Row("settle.keys_dropped", "run", "a mark `settled`"),
    Row("access.user_dropped", "run", "a Secret whose user is gone"),
    Row("access.secret_deleted", "run", "a run that is put away, and does not say so"),
    # the queue is lost
    Row("rebuild.recorded", "rebuild", "a rebuilt queue that has only what the lines prove", again=True),
    # a run is deleted
    Row("delete.stopped", "delete", "a stopped queue"),
    Row("delete.workers_ended", "delete", "a run without workers"),
    Row("delete.keys_dropped", "delete", "a run without keys"),
    Row("delete.user_dropped", "delete", "a run without its user of the queue"),
    Row("delete.ref_removed", "delete", "a run without its keep-ref"),
    Row("delete.directory_removed", "delete", "a run without its directory"),
    Row("delete.output_released", "delete", "a run with one finalizer left"),
    # a project is deleted
    Row("repository.moved", "remove", "a retained repository, perhaps not on disk"),
    Row("remove.repository_gone", "remove", "sources of a project without a repository"),
    Row("remove.snapshots_gone", "remove", "a finalizer, and nothing that it stands for"),
    # retention
    Row("prune.set_aside", "prune", "a snapshot in the trash, perhaps not on disk"),
    Row("prune.discarded", "prune", "trash that nobody empties"),
    Row("history.summary_kept", "history", "the summary of a run that is still there"),
    Row("history.run_deleted", "history", "a job without a run, which must not start one"),
)
