"""The order of an examination: what everything else stands on comes first, and what cannot be looked at without it is left out."""

from collections.abc import AsyncIterator

from arena.doctor.content import examine_content
from arena.doctor.finding import Finding, info
from arena.doctor.installation import examine_directory, examine_server, examine_store
from arena.doctor.machine import examine_machine
from arena.doctor.runs import examine_queue, examine_runs
from arena.doctor.survey import Survey


async def examine(survey: Survey) -> AsyncIterator[Finding]:
    """Yield what is found, as it is found; works while a server runs and while none does, and changes nothing."""
    for finding in (*examine_machine(survey), *examine_directory(survey.state)):
        yield finding
    findings, readable = examine_store(survey)
    for finding in findings:
        yield finding
    if readable:
        async for finding in examine_content(survey):
            yield finding
        for finding in examine_runs(survey):
            yield finding
    findings, address = examine_server(survey.state)
    for finding in findings:
        yield finding
    url = survey.redis_url or (address.queue if address else "")
    if url and readable:
        async for finding in examine_queue(survey, url):
            yield finding
    elif address is not None:
        yield info("queue server", "the server uses one that it was given", "name it with --redis-url to have it looked at")
