"""Reasons say who sets them, when, and what to do."""

import json
import re

import pytest

from reconcile.kinds.reasons import REASONS, EventReason, JobReason, ProjectReason, QuotaReason, Reason, RunDetailReason, RunReason

MEMBERS = [pytest.param(member, id=f"{enum.__name__}.{member.name}") for enum in REASONS for member in enum]
# of the specification and resources.md
PROJECT = "Succeeded Progressing Suspended InvalidSpec RepositoryEmpty AuthenticationFailed RemoteUnreachable RemoteEmpty RefNotFound SnapshotUnexportable StorageFailed SeedFailed NotSupported"
RUN = (
    "RefNotFound SnapshotUnexportable InvalidProviderEntry ServiceGroupAmbiguous ServiceGroupNotFound BudgetExceeded TestsFailed JobCreationFailed WaitingForWorkspaceQuota "
    "InvalidSpec NotSupported ProjectNotReady ArenaFileNotFound BundleInvalid NoScenarios ProviderNotFound MatrixTooLarge DeadlineExceeded WorkersFailed QueueLost Cancelled"
)
QUOTA = "QuotaSatisfied WaitingForConcurrentRunSlot WaitingForDailyRunQuota WaitingForQuotaAdmission AdmissionReleased WorkersClamped"
DETAIL = "ServiceGroupRedisChanged OutputUploaded OutputUploadFailed"
EVENT = "RunSkipped Suspended CorpusNotRecorded StaleSource QueueRebuilt OutputLost"


@pytest.mark.parametrize("member", MEMBERS)
def test_a_reason_documents_itself(member: Reason) -> None:
    """Every member says who sets it, when, and what the user should do, and its docstring is the three."""
    assert re.fullmatch(r"([A-Z][a-zA-Z0-9]*)", member.value)
    assert "" not in (member.set_by, member.when)
    assert member.remedy.endswith(".")
    assert member.__doc__ == f"Set by {member.set_by} when {member.when}. {member.remedy}"


@pytest.mark.parametrize(
    ("enum", "words"),
    [
        (ProjectReason, PROJECT),
        (JobReason, "Scheduled InvalidSchedule NotSupported"),
        (RunReason, RUN),
        (QuotaReason, QUOTA),
        (RunDetailReason, DETAIL),
        (EventReason, EVENT),
    ],
    ids=["project", "job", "run", "quota", "run details", "events"],
)
def test_every_reason_of_the_specification_is_there(enum: type[Reason], words: str) -> None:
    """A word that the specification uses is a member, spelled as it is there."""
    assert set(words.split()) - {str(member) for member in enum} == set()


def test_a_reason_is_its_word() -> None:
    """A member goes into a condition as it is: it equals and prints its word."""
    assert {"reason": RunReason.TESTS_FAILED} == {"reason": "TestsFailed"}
    assert f"{RunReason.TESTS_FAILED}" == "TestsFailed"
    assert json.dumps(RunReason.TESTS_FAILED) == '"TestsFailed"'
