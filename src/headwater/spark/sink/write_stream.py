"""Start streaming queries that write to topics, in every output mode.

    write_stream(counts, bootstrap_servers="127.0.0.1:9092", topic="counts", mode="update", ...)

Spark does not allow mode `update` for sinks written in Python, so `foreachBatch` writes such
batches. They are exactly once too: each is written under its batch id and the id of its query.
"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.spark.data_source import check_writable, with_targets
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import known_schemas
from headwater.spark.locations import unreachable_reason
from headwater.spark.sink.replay_safety import check_replay_safe
from headwater.spark.sink.sink_options import ASK_SPARK, Delivery, read_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MODES: Final = ("append", "update", "complete")

# Adaptive execution could distribute the rows of a repeated batch differently.
FIXED_ROUTES: Final = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
# Otherwise the printed plan is truncated in the middle of its columns.
_WHOLE_PLANS: Final = {"spark.sql.debug.maxToStringFields": "100000"}


def write_stream(
    frame: "DataFrame",
    *,
    bootstrap_servers: str,
    checkpoint: str | Path,
    topic: str | None = None,
    mode: str = "append",
    delivery: str = Delivery.EXACTLY_ONCE.value,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> "StreamingQuery":
    """Start a query that writes rows to a topic, or to those in its column `topic`.

    `mode` is append, update or complete. `trigger` is what PySpark's own `trigger` takes, such as
    `{"processingTime": "1 second"}`; `options` are further options of the sink. Raises
    `InvalidOption`, `WrongColumns` or `UnsafeReplay` before anything is started.
    """
    if mode not in MODES:
        raise InvalidOption(f"mode must be one of {', '.join(MODES)}, not {mode}")
    if not frame.isStreaming:
        raise InvalidOption("this is no stream; write it with frame.write")
    given = {
        **(options or {}),
        "kafka.bootstrap.servers": bootstrap_servers,
        "delivery": delivery,
        **({} if topic is None else {"topic": topic}),
    }
    is_exact = read_sink_options(given, is_streaming=True).delivery is Delivery.EXACTLY_ONCE
    if not is_remote(frame) and (
        reason := unreachable_reason(str(checkpoint), frame.sparkSession.sparkContext.master)
    ):
        raise InvalidOption(f"checkpoint: {reason}")
    # A query keeps the settings that the session has when it is started.
    with _settings(frame.sparkSession, FIXED_ROUTES if is_exact else {}):
        writer = topic_writer(frame, given, mode).option("checkpointLocation", str(checkpoint))
        if name is not None:
            writer = writer.queryName(name)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        return writer.start()


def topic_writer(frame: "DataFrame", options: Mapping[str, str], mode: str) -> "DataStreamWriter":
    """Return a writer of a stream's rows to topics, after all possible checks.

    The session must have `FIXED_ROUTES` while an exactly-once query is started from it.
    """
    chosen = read_sink_options(options, is_streaming=True)
    check_writable(frame.schema, chosen)
    options = known_schemas(options, with_targets(frame.schema, chosen).targets)
    is_exact = chosen.delivery is Delivery.EXACTLY_ONCE
    if is_exact and mode == "update" and is_remote(frame):
        raise InvalidOption(
            "Spark Connect does not tell which batch of which query is written, so mode update "
            "cannot be exactly-once there: write at-least-once, or from a session of Spark's own"
        )
    if is_exact:
        check_replay_safe(explained(frame))
    writer = frame.writeStream.outputMode(mode)
    if mode == "update":
        return writer.foreachBatch(_batch_writer(options, is_exact=is_exact))
    return writer.format("headwater").options(**options)


def explained(frame: "DataFrame") -> str:
    """Return the physical plan of a frame as text."""
    text = io.StringIO()
    # Spark and Spark Connect both offer it only as printed output.
    with _settings(frame.sparkSession, _WHOLE_PLANS), redirect_stdout(text):
        frame.explain()
    return text.getvalue()


def is_remote(frame: object) -> bool:
    """Return whether a frame is Spark Connect's, whose package may be missing."""
    return type(frame).__module__.startswith("pyspark.sql.connect.")


def _batch_writer(given: Mapping[str, str], *, is_exact: bool) -> Any:
    """Return the function that writes a batch; pickled, so it holds only options."""
    options = dict(given)

    def write(rows: "DataFrame", batch_id: int) -> None:
        identity = {"queryId": ASK_SPARK, "batchId": str(batch_id)} if is_exact else {}
        rows.write.format("headwater").options(**options, **identity).mode("append").save()

    return write


@contextmanager
def _settings(spark: "SparkSession", chosen: Mapping[str, str]) -> Iterator[None]:
    """Set session settings temporarily."""
    former: dict[str, str | None] = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in former.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
