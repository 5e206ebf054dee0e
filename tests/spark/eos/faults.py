"""A sink that fails, or kills a process, at chosen points of its batches, once each.

Nothing of the real sink is replaced: its writer writes, and this one wraps its rows and its result.
A file records that a fault has happened, written before the fault, which may kill the process.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition
from headwater.spark.data_source import HeadwaterSource
from headwater.spark.sink.sink_options import SinkOptions
from headwater.spark.sink.writers import RowsWritten, TopicStreamWriter, TopicWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VARIABLE = "HEADWATER_TEST_FAULTS"
_TIMEOUT_S = 120.0
_ATTEMPT_S = 900.0


class Victim(StrEnum):
    """What a fault hits. A task and the driver fail; the others are killed with SIGKILL."""

    TASK = "task"
    DRIVER = "driver"
    WORKER = "worker"
    JVM = "jvm"
    BROKER = "broker"
    # A worker of a standalone cluster, with its executor.
    CLUSTER_WORKER = "cluster-worker"
    # The executor's JVM; the task's Python goes on and commits after the next attempt has.
    EXECUTOR = "executor"


class Point(StrEnum):
    """When a task is hit: after sending rows and before committing, or just after committing."""

    WRITING = "writing"
    COMMITTED = "committed"


class Struck(Exception):
    """The injected failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, in one batch."""

    victim: Victim
    point: Point
    batch: int

    def __str__(self) -> str:
        return f"{self.victim}-{self.point}-{self.batch}"


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a run. `folder` has the processes to kill, and the faults so far."""

    folder: Path
    planned: tuple[Fault, ...]

    def to_text(self) -> str:
        return json.dumps([str(self.folder), [asdict(fault) for fault in self.planned]])

    def announce(self, victim: Victim, pid: int) -> None:
        """Record a process that may be killed; a negative number is a process group."""
        whole = self.folder / f"{victim}.new"
        whole.write_text(str(pid))
        # Written atomically, since other processes read it.
        whole.rename(self.folder / f"{victim}.pid")

    def has_struck(self, fault: Fault) -> bool:
        return self._note(fault).exists()

    def due(self, point: Point, batch: int, victims: tuple[Victim, ...]) -> Fault | None:
        for fault in self.planned:
            if (fault.point, fault.batch) == (point, batch) and fault.victim in victims:
                return None if self.has_struck(fault) else fault
        return None

    def strike(self, fault: Fault) -> None:
        try:
            self._note(fault).touch(exist_ok=False)
        except FileExistsError:
            return
        match fault.victim:
            case Victim.TASK | Victim.DRIVER:
                raise Struck(f"as planned: {fault}")
            case Victim.WORKER:
                os.kill(os.getpid(), signal.SIGKILL)
            case Victim.JVM | Victim.BROKER:
                os.kill(int((self.folder / f"{fault.victim}.pid").read_text()), signal.SIGKILL)
            case Victim.CLUSTER_WORKER:
                # Above this Python are a daemon, the executor and the worker.
                os.kill(_parent(_parent(os.getppid())), signal.SIGKILL)
            case Victim.EXECUTOR:
                self._outlive_the_executor(fault)

    def note_write(self, batch: int, rows: int) -> None:
        """Record that a task has written its part of a batch, or has found it written."""
        path = self.folder / f"wrote-{batch}-{os.getpid()}-{time.monotonic_ns()}"
        path.write_text(str(rows))

    def note_refusal(self, error: BaseException) -> None:
        """Record what became of a task whose executor is gone."""
        (self.folder / "refused").write_text(f"{type(error).__name__}: {error}")

    @property
    def refusal(self) -> str | None:
        path = self.folder / "refused"
        return path.read_text() if path.exists() else None

    def writes(self, batch: int) -> int:
        return len(list(self.folder.glob(f"wrote-{batch}-*")))

    def _outlive_the_executor(self, fault: Fault) -> None:
        """Kill the executor above this Python, and wait until another one has done its work."""
        before = self.writes(fault.batch)
        # The daemon ends its process group when its JVM is gone.
        os.setpgid(0, 0)
        os.kill(_parent(os.getppid()), signal.SIGKILL)
        until_s = time.monotonic() + _ATTEMPT_S
        while self.writes(fault.batch) == before:
            if time.monotonic() > until_s:
                raise Struck("no other attempt has written the batch")
            threading.Event().wait(0.2)

    def _note(self, fault: Fault) -> Path:
        return self.folder / f"struck-{fault}"


def _parent(pid: int) -> int:
    # The second field may hold spaces, in parentheses.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def faults_in(environment: Mapping[str, str]) -> Faults:
    folder, planned = json.loads(environment[VARIABLE])
    return Faults(
        Path(folder),
        tuple(
            Fault(victim=Victim(told["victim"]), point=Point(told["point"]), batch=told["batch"])
            for told in planned
        ),
    )


class FaultySource(HeadwaterSource):
    """Registered in place of the source and sink that it wraps."""

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return FaultyWriter(self._sink_options(schema, is_streaming=False))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        return FaultyStreamWriter(self._sink_options(schema, is_streaming=True))


class FaultyWriter(TopicWriter):
    """For `foreachBatch`. Its driver does not know the batch, and is not hit."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return _written(super().write, iterator, self._options)


class FaultyStreamWriter(TopicStreamWriter):
    """For `writeStream`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return _written(super().write, iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        faults = faults_in(os.environ)
        fault = faults.due(Point.COMMITTED, batchId, (Victim.DRIVER,))
        if fault is not None:
            faults.strike(fault)


def _written(
    write: Callable[[Iterator[pa.RecordBatch]], WriterCommitMessage],
    rows: Iterator[pa.RecordBatch],
    options: SinkOptions,
) -> WriterCommitMessage:
    """Write as the sink does, and let faults happen before and after the commit."""
    faults = faults_in(os.environ)
    executor = _parent(os.getppid())
    try:
        message = write(_watched(rows, options))
    except KafkaError as error:
        if _parent(os.getppid()) != executor:
            # Spark has no connection to this process any more.
            faults.note_refusal(error)
            os._exit(1)
        raise
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    assert isinstance(message, RowsWritten)
    if batch is not None and context.partitionId() == 0:
        faults.note_write(int(batch), message.rows)
    _strike_committed()
    return message


def _watched(rows: Iterator[pa.RecordBatch], options: SinkOptions) -> Iterator[pa.RecordBatch]:
    """All rows; once some are sent in an open transaction, the task may be hit."""
    fault = _due(Point.WRITING)
    if fault is None:
        yield from rows
        return
    topic = options.topic
    assert topic is not None
    with OffsetRangeReader({"bootstrap.servers": options.client["bootstrap.servers"]}) as brokers:
        ends = {
            TopicPartition(topic, number): -1 for number in range(brokers.topics([topic])[topic])
        }
        before = brokers.offsets(ends)
        yield from rows
        until_s = time.monotonic() + _TIMEOUT_S
        while brokers.offsets(ends) == before:
            assert time.monotonic() < until_s, "no row of the task comes to the log"
    faults_in(os.environ).strike(fault)


def _strike_committed() -> None:
    fault = _due(Point.COMMITTED)
    if fault is not None:
        faults_in(os.environ).strike(fault)


def _due(point: Point) -> Fault | None:
    """The fault for this task. It hits one of several tasks, so that a batch is half written."""
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    if context.partitionId() != 0 or batch is None:
        return None
    return faults_in(os.environ).due(point, int(batch), tuple(set(Victim) - {Victim.DRIVER}))
