"""JSON messages between broker and cleaner process."""

import random
from dataclasses import replace

from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import CleaningFailure, FailureKind
from headwater.storage.cleaner.cleaning_job_json import (
    job_line,
    outcome_line,
    progress_line,
    read_job,
    read_message,
)
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.simple_log import SimpleLog


def test_jobs_and_results_survive_a_round_trip() -> None:
    log = SimpleLog(LossyDisk(random.Random(1)))
    log.append([(b"k", b"v")], producer_id=3, is_transactional=True)
    log.end_transaction(3, commit=False)
    log.roll()
    job = replace(log.job(), map_seed=bytes(range(16)))
    assert job.aborted
    assert job.live_producers
    assert read_job(job_line(job)) == job

    result = clean(log.disk, job)
    received = read_message(outcome_line(result))
    assert received == result
    assert not isinstance(received, int | CleaningFailure)
    assert received.stats == result.stats

    failure = CleaningFailure(FailureKind.CORRUPT, 'a "name",\nand a line')
    assert read_message(outcome_line(failure)) == failure
    assert outcome_line(failure).count("\n") == 1
    assert read_message(progress_line(5)) == 5
