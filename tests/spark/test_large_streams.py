"""Millions of events, some of them late, give the results of plain Python.

Windows, a stream-stream join and `transformWithState` read the same topic, one after the other. The
test prints rows per second and the peak memory of all processes; HEADWATER_EVENTS sets how many
events there are.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.client import Consumer, Producer, TopicPartition
from headwater.spark import write_stream
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make
from tests.spark.queries import run_to_its_end
from tests.spark.stream_reference import ends_of_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = int(os.environ.get("HEADWATER_EVENTS", "5000000"))
BATCHES = 10
USERS = 1_000
PARTITIONS = 2
FIRST_MS = 1_767_225_600_000
# So many minutes that each user has some tens of events in one.
SPAN_MS = max(EVENTS // 50_000, 10) * 60_000
WINDOW_MS = 60_000
DELAY_MS = 120_000
# A payment belongs to an order if it follows within a minute.
PAID_WITHIN_MS = 60_000
SCHEMA = "value struct<user: int, at: bigint, amount: int, order: bigint, paid: boolean>"


# Each query computes for minutes, on a busy machine for ten.
TIMEOUT_S = 1800
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * TIMEOUT_S)]


@dataclass(frozen=True, slots=True)
class Events:
    """Columns of events, in the order of their partition."""

    user: list[int]
    at_ms: list[int]
    amount: list[int]
    order: list[int]
    is_payment: list[bool]


@pytest.fixture(scope="module")
def log(spark_broker: EmbeddedBroker) -> list[Events]:
    """The events of each partition, which are in the topic too."""
    make(spark_broker, "large", partitions=PARTITIONS)
    rng = np.random.default_rng(20261118)
    return [
        _fill(spark_broker, partition, _random_events(rng, EVENTS // PARTITIONS))
        for partition in range(PARTITIONS)
    ]


def _random_events(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Events in order of time but for one in five, of which one in ten is far too late."""
    now_ms = FIRST_MS + np.arange(count) * SPAN_MS // count
    behind_ms = np.where(rng.random(count) < 0.2, rng.integers(0, DELAY_MS, count), 0)
    behind_ms = np.where(rng.random(count) < 0.02, 30 * 60_000, behind_ms)
    return {
        "user": rng.integers(0, USERS, count),
        "at": np.maximum(now_ms - behind_ms, FIRST_MS),
        "amount": rng.integers(1, 100, count),
        # Payments of an order are in another place of the log, sometimes before it.
        "order": np.maximum(np.arange(count) // 2 - rng.integers(0, 200, count), 0),
        "paid": rng.random(count) < 0.5,
    }


def _fill(broker: EmbeddedBroker, partition: int, columns: dict[str, Any]) -> Events:
    texts = {name: pc.cast(pa.array(column), pa.string()) for name, column in columns.items()}
    parts: list[Any] = []
    for name, column in texts.items():
        parts += [f'{"," if parts else "{"}"{name}":', column]
    values = pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
        for first in range(0, len(values), 250_000):
            part = values.slice(first, 250_000)
            number = pa.array([partition] * len(part), pa.int32())
            producer.send_table("large", pa.table({"value": part, "partition": number})).result()
    return Events(*(column.tolist() for column in columns.values()))


@dataclass(frozen=True, slots=True)
class Run:
    """What a query did: its checkpoint, rows per second, and peak memory."""

    checkpoint: Path
    rows_per_s: float
    peak_bytes: int


def _events(spark: "SparkSession", broker: EmbeddedBroker) -> "DataFrame":
    return (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "large")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", EVENTS // BATCHES)
        .option("valueFormat", "json")
        .schema(SCHEMA)
        .load()
        .selectExpr("value.*", "timestamp_millis(value.at) as time")
        .withWatermark("time", f"{DELAY_MS} milliseconds")
    )


def _run(
    frame: "DataFrame", broker: EmbeddedBroker, folder: Path, name: str, mode: str = "append"
) -> Run:
    make(broker, f"large-{name}", partitions=PARTITIONS)
    with _peak_memory() as peak_bytes:
        query = run_to_its_end(
            lambda: write_stream(
                frame,
                bootstrap_servers=broker.bootstrap_servers,
                topic=f"large-{name}",
                mode=mode,
                checkpoint=folder / name,
                trigger={"availableNow": True},
            ),
            TIMEOUT_S,
        )
    progress = query.recentProgress
    rows = sum(each["numInputRows"] for each in progress)
    seconds = sum(each["durationMs"]["triggerExecution"] for each in progress) / 1000
    run = Run(folder / name, rows / seconds, peak_bytes())
    print(
        f"\n{name}: {rows:,} rows in {len(progress)} batches, {run.rows_per_s:,.0f} rows/s, "
        f"peak memory of all processes {run.peak_bytes / 2**20:,.0f} MiB"
    )
    return run


@contextmanager
def _peak_memory() -> Iterator[Callable[[], int]]:
    """Watch the proportional memory of this process's children, which are Spark's."""
    peak = 0
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.5):
            peak = max(peak, sum(_memory(each) for each in _descendants(os.getpid())))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: peak
    finally:
        is_over.set()
        thread.join()


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _memory(pid: int) -> int:
    """Memory of a process; pages that forked workers share count once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _written(broker: EmbeddedBroker, name: str) -> list[tuple[int, ...]]:
    """The committed rows of a topic: numbers with commas between them."""
    found: list[tuple[int, ...]] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        places = [TopicPartition(f"large-{name}", each) for each in range(PARTITIONS)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(each) < ends[each] for each in places):
            values = consumer.poll_table(1.0).column("value").to_pylist()
            found += [tuple(map(int, (each or b"").split(b","))) for each in values]
    return found


def _batches(run: Run) -> Iterator[list[tuple[int, range]]]:
    """The partitions and offsets of each batch."""
    before = dict.fromkeys(range(PARTITIONS), 0)
    for until in ends_of_batches(run.checkpoint, "large"):
        yield [(each, range(before[each], until[each])) for each in range(PARTITIONS)]
        before = dict(until)


def test_windows_over_late_events(
    spark: "SparkSession", spark_broker: EmbeddedBroker, log: list[Events], tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    windows = (
        _events(spark, spark_broker)
        .groupBy("user", f.window("time", "1 minute"))
        .agg(f.count("*").alias("count"), f.sum("amount").alias("amount"))
    )
    columns = "user, unix_millis(window.start), count, amount"
    frame = windows.selectExpr(f"concat_ws(',', {columns}) as value")
    run = _run(frame, spark_broker, tmp_path, "windows")
    opened: dict[tuple[int, int], list[int]] = {}
    closed = []
    late_before_ms = watermark_ms = newest_ms = dropped = 0
    for batch in _batches(run):
        for partition, offsets in batch:
            events = log[partition]
            for at in offsets:
                at_ms = events.at_ms[at]
                newest_ms = max(newest_ms, at_ms)
                start_ms = at_ms - at_ms % WINDOW_MS
                if start_ms + WINDOW_MS <= late_before_ms:
                    dropped += 1
                    continue
                sums = opened.setdefault((events.user[at], start_ms), [0, 0])
                sums[0] += 1
                sums[1] += events.amount[at]
        for (user, start_ms), sums in list(opened.items()):
            if start_ms + WINDOW_MS <= watermark_ms:
                del opened[user, start_ms]
                closed.append((user, start_ms, *sums))
        late_before_ms = watermark_ms
        watermark_ms = max(watermark_ms, newest_ms - DELAY_MS)
    assert dropped > EVENTS // 100
    assert len(closed) > len(opened)
    assert sorted(_written(spark_broker, "windows")) == sorted(closed)


def test_a_join_of_two_streams_with_late_events(
    spark: "SparkSession", spark_broker: EmbeddedBroker, log: list[Events], tmp_path: Path
) -> None:
    orders = _events(spark, spark_broker).where("not paid")
    payments = _events(spark, spark_broker).where("paid")
    joined = (
        orders.selectExpr("user", "order as id", "time as ordered_at", "at as order_at")
        .alias("o")
        .join(
            payments.selectExpr("user as payer", "order", "time as paid_at", "at as at").alias("p"),
            on=_same_order_within_a_minute(),
        )
    )
    frame = joined.selectExpr("concat_ws(',', id, order_at, at) as value")
    run = _run(frame, spark_broker, tmp_path, "joined")
    # A pair is joined if neither of its events was too late when it came.
    kept: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    late_before_ms = watermark_ms = 0
    newest_ms = [0, 0]
    for batch in _batches(run):
        for partition, offsets in batch:
            events = log[partition]
            for at in offsets:
                at_ms, side = events.at_ms[at], int(events.is_payment[at])
                newest_ms[side] = max(newest_ms[side], at_ms)
                if at_ms > late_before_ms:
                    kept[side][events.order[at]].append(at_ms)
        late_before_ms = watermark_ms
        watermark_ms = max(watermark_ms, min(newest_ms) - DELAY_MS)
    expected = [
        (order, ordered_ms, paid_ms)
        for order, times in kept[0].items()
        for ordered_ms in times
        for paid_ms in kept[1].get(order, ())
        if ordered_ms <= paid_ms <= ordered_ms + PAID_WITHIN_MS
    ]
    assert len(expected) > EVENTS // 20
    assert sorted(_written(spark_broker, "joined")) == sorted(expected)


def _same_order_within_a_minute() -> Any:
    from pyspark.sql import functions as f

    return f.expr(
        "o.id = p.order and paid_at >= ordered_at "
        f"and paid_at <= ordered_at + interval {PAID_WITHIN_MS // 1000} seconds"
    )


def test_state_of_a_processor(
    spark: "SparkSession", spark_broker: EmbeddedBroker, log: list[Events], tmp_path: Path
) -> None:
    totals = (
        _events(spark, spark_broker)
        .select("user", "amount")
        .groupBy("user")
        .transformWithStateInPandas(
            statefulProcessor=_totals(),
            outputStructType="user int, count bigint, amount bigint",
            outputMode="Update",
            timeMode="None",
        )
    )
    frame = totals.selectExpr("concat_ws(',', user, count, amount) as value")
    run = _run(frame, spark_broker, tmp_path, "totals", mode="update")
    sums = {user: [0, 0] for user in range(USERS)}
    expected = []
    for batch in _batches(run):
        met = set()
        for partition, offsets in batch:
            events = log[partition]
            for at in offsets:
                user = events.user[at]
                sums[user][0] += 1
                sums[user][1] += events.amount[at]
                met.add(user)
        expected += [(user, *sums[user]) for user in met]
    assert len(expected) == USERS * BATCHES
    assert sorted(_written(spark_broker, "totals")) == sorted(expected)


def _totals() -> Any:
    """Spark ships the class by value, since workers cannot import this module."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("totals", "count bigint, amount bigint")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002, N802, N803
            count, amount = self._state.get() or (0, 0)
            for part in rows:
                count += len(part)
                amount += int(part["amount"].sum())
            self._state.update((count, amount))
            yield pd.DataFrame({"user": [key[0]], "count": [count], "amount": [amount]})

        def close(self) -> None:
            """Nothing to release."""

    return Totals()
