"""Run the queries of a pipeline until each has processed what there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.run.batch_progress import BatchProgress, read_progress
from headwater.pipelines.run.failure_reason import reason_of, without_class
from headwater.pipelines.run.spark_errors import spark_errors
from headwater.pipelines.run.supervisor import Start

_TIMEOUT_S: Final = 240
# Spark gives a Python process ten seconds to start and has no setting for it; a busy machine may
# need longer. Nothing has been read by then.
_TRIES: Final = 4
_TOO_SLOW: Final = "Python worker failed to connect back"


class PipelineFailed(HeadwaterError):
    """A query of the pipeline has failed; the message is the reason in one line."""


@dataclass(frozen=True, slots=True)
class FinishedQuery:
    """What a query has done in a run."""

    batches: tuple[BatchProgress, ...]


def run_queries(starts: Mapping[str, Start]) -> dict[str, FinishedQuery]:
    """Run all of them to their end, at the same time. `PipelineFailed` if one fails."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return _run(starts)
        except PipelineFailed as failure:
            if _TOO_SLOW not in str(failure.__cause__) or not tries_left:
                raise
    raise AssertionError("unreachable")


def _run(starts: Mapping[str, Start]) -> dict[str, FinishedQuery]:
    running: dict[str, Any] = {}
    errors: tuple[type[Exception], ...] = (*spark_errors(), HeadwaterError)
    name = ""
    try:
        for name, start in starts.items():
            running[name] = start()
        for name, query in running.items():
            if not query.awaitTermination(_TIMEOUT_S):
                raise PipelineFailed(f"{name} has not ended after {_TIMEOUT_S} s")
    except PipelineFailed:
        raise
    except errors as error:
        raise PipelineFailed(f"{name}: {without_class(reason_of(error))}") from error
    finally:
        for query in running.values():
            if query.isActive:
                query.stop()
    return {
        name: FinishedQuery(tuple(read_progress(each) for each in query.recentProgress))
        for name, query in running.items()
    }
