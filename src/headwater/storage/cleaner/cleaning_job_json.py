"""JSON lines between the broker and its cleaner process.

One message is one line: `{"job": ...}` goes in, followed by an `{"io_limit": ...}` whenever the
job's share of the I/O budget changes; `{"progress": ...}` comes out any number of times, followed
by one `{"result": ...}` or `{"failure": ...}`.
"""

import json
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from headwater.storage.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    CleaningStats,
    FailureKind,
    LiveProducer,
    ReplacedSegment,
    SourceSegment,
)
from headwater.storage.index.transaction_index import AbortedTransaction


def job_line(job: CleaningJob) -> str:
    return _line("job", {**asdict(job), "folder": str(job.folder), "map_seed": job.map_seed.hex()})


def io_limit_line(bytes_per_second: int) -> str:
    return _line("io_limit", bytes_per_second)


def outcome_line(outcome: CleaningResult | CleaningFailure) -> str:
    name = "failure" if isinstance(outcome, CleaningFailure) else "result"
    return _line(name, asdict(outcome))


def progress_line(done_bytes: int) -> str:
    return _line("progress", done_bytes)


def read_job(line: str) -> CleaningJob:
    given: dict[str, Any] = json.loads(line)["job"]
    return CleaningJob(
        **{
            **given,
            "folder": PurePath(given["folder"]),
            "map_seed": bytes.fromhex(given["map_seed"]),
            "sources": tuple(SourceSegment(**each) for each in given["sources"]),
            "aborted": tuple(AbortedTransaction(*each) for each in given["aborted"]),
            "live_producers": tuple(LiveProducer(**each) for each in given["live_producers"]),
        }
    )


def read_io_limit(line: str) -> int:
    """Parse a message to a running cleaning: its new limit in bytes per second."""
    bytes_per_second: int = json.loads(line)["io_limit"]
    return bytes_per_second


def read_message(line: str) -> CleaningResult | CleaningFailure | int:
    """Parse a message of the child: its result, or the bytes processed so far."""
    message: dict[str, Any] = json.loads(line)
    if "progress" in message:
        done_bytes: int = message["progress"]
        return done_bytes
    if "failure" in message:
        failure = message["failure"]
        return CleaningFailure(FailureKind(failure["kind"]), failure["reason"])
    given = message["result"]
    return CleaningResult(
        groups=tuple(_read_group(each) for each in given["groups"]),
        first_dirty_offset=given["first_dirty_offset"],
        generation=given["generation"],
        stats=CleaningStats(**given["stats"]),
    )


def _read_group(given: dict[str, Any]) -> CleanedGroup:
    replaced = tuple(ReplacedSegment(**each) for each in given["replaced"])
    return CleanedGroup(**{**given, "replaced": replaced})


def _line(name: str, content: object) -> str:
    return json.dumps({name: content}, separators=(",", ":")) + "\n"
