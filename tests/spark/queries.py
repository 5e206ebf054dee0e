"""Streaming queries that run to their end.

Spark gives a Python process ten seconds to start, and has no setting for it. A busy machine may
need longer. Nothing has been read by then, so the query is started again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT_S = 240

TRIES = 4


def is_too_slow(error: str) -> bool:
    """Whether the failure was that timeout."""
    return "Python worker failed to connect back" in error


def run_to_its_end(
    start: "Callable[[], StreamingQuery]", timeout_s: int = TIMEOUT_S
) -> "StreamingQuery":
    """Run the query until it has written everything that was there at its start."""
    for tries_left in reversed(range(TRIES)):
        try:
            query = start()
            assert query.awaitTermination(timeout_s)
        except PySparkException as error:
            if not is_too_slow(str(error)) or not tries_left:
                raise
        else:
            return query
    raise AssertionError("unreachable")
