"""Runs of pipelines, from the topic to which they publish their state.

Note: the records are untrusted. A field of the wrong type is shown as unknown, and does not fail
the page.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.aio import Consumer, Producer
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.console.console_errors import ConsoleError, not_found
from headwater.pipelines.run.run_records import (
    ENDED,
    TOPIC,
    PublishedRun,
    PublishedRuns,
    stop_record,
)

READ_S_MAX: Final = 5.0
RUNS_MAX: Final = 2_000
SINKS_MAX: Final = 100
TEXT_MAX: Final = 500
DEAD_LETTERS: Final = "dead-letters-of-"
"""Prefix of the query that writes the dead letters of a source."""

_log = logging.getLogger(__name__)

_NUMBER_MAX: Final = 1e18
_PARTITION: Final = TopicPartition(TOPIC, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineQueryRow:
    """A query of a run, as of its last batch. Unknown values are None."""

    name: str
    state: str
    rows_per_second: float | None
    rows: int | None
    lag: int | None
    batch_ms: int | None
    dropped_rows: int | None
    restarts: int | None
    error: str | None
    is_dead_letters: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run; `state` is died if it stopped reporting without an end."""

    name: str
    state: str
    host: str
    pid: int
    file: str
    started_ms: int
    told_ms: int
    is_alive: bool
    is_stop_requested: bool
    rows_per_second: float | None
    lag: int | None
    batch_ms: int | None
    dead_letters: int | None
    """Rows of the last batch that were written as dead letters."""
    sinks: tuple[PipelineQueryRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """All published runs, running ones first."""

    runs: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    run: RunRow


class RunsReader:
    """Follows the topic; each call reads what is new in it."""

    def __init__(
        self, consumer: Callable[[], Consumer], producer: Callable[[], Producer], clock: Clock
    ) -> None:
        self._new_consumer = consumer
        self._producer = producer
        self._clock = clock
        self._runs = PublishedRuns()
        self._position: int | None = None
        self._lock = asyncio.Lock()

    async def list(self) -> RunList:
        runs = await self._refresh()
        now_ms = self._clock.now_ms()
        rows = [run_row(each, runs, now_ms) for each in runs.runs.values()]
        ordered = sorted(rows, key=lambda each: (not each.is_alive, each.name))
        return RunList(runs=tuple(ordered))

    async def detail(self, name: str) -> RunDetail:
        runs = await self._refresh()
        return RunDetail(run=run_row(_known(runs, name), runs, self._clock.now_ms()))

    async def request_stop(self, name: str) -> None:
        """Write a stop request, which the run reads within seconds."""
        run = _known(await self._refresh(), name)
        now_ms = self._clock.now_ms()
        if not run.is_alive(now_ms):
            raise ConsoleError(409, f"The pipeline '{name}' does not run.")
        key, value = stop_record(run, now_ms)
        await self._producer().send_and_wait(TOPIC, value, key=key, partition=0)

    async def _refresh(self) -> PublishedRuns:
        async with self._lock:
            consumer = self._new_consumer()
            try:
                async with asyncio.timeout(READ_S_MAX):
                    await self._read(consumer)
            except TimeoutError:
                # A long topic is read on with the next page.
                pass
            finally:
                await consumer.close()
        return self._runs

    async def _read(self, consumer: Consumer) -> None:
        end = (await consumer.end_offsets([_PARTITION]))[_PARTITION]
        start = (await consumer.beginning_offsets([_PARTITION]))[_PARTITION]
        position = self._position
        if position is None or not start <= position <= end:
            # The topic is new, or was deleted and created again.
            self._runs, position = PublishedRuns(), start
        consumer.assign([_PARTITION])
        consumer.seek(_PARTITION, position)
        while position < end:
            for record in await consumer.poll(0.5):
                self._replay(record.key, record.value)
            position = self._position = await consumer.position(_PARTITION)
        self._position = position

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        try:
            self._runs.replay(key, value)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            # Any client with Write permission can produce to the topic.
            _log.warning("Ignored a record of %s: error=%r", TOPIC, error)
        while len(self._runs.runs) > RUNS_MAX:
            # The one that has been published first.
            self._runs.runs.pop(next(iter(self._runs.runs)))


def run_row(run: PublishedRun, runs: PublishedRuns, now_ms: int) -> RunRow:
    sinks = tuple(map(_sink_row, run.sinks[:SINKS_MAX]))
    queries = [each for each in sinks if not each.is_dead_letters]
    letters = [each.rows or 0 for each in sinks if each.is_dead_letters]
    is_alive = run.is_alive(now_ms)
    return RunRow(
        name=run.name,
        state=run.state if is_alive or run.state in ENDED else "died",
        host=run.host,
        pid=run.pid,
        file=run.file,
        started_ms=run.started_ms,
        told_ms=run.told_ms,
        is_alive=is_alive,
        is_stop_requested=is_alive and runs.is_stop_requested(run.name, run.started_ms),
        rows_per_second=_sum([each.rows_per_second for each in queries]),
        lag=_whole(_sum([each.lag for each in queries])),
        batch_ms=max(
            (each.batch_ms for each in queries if each.batch_ms is not None), default=None
        ),
        dead_letters=sum(letters) if letters else None,
        sinks=sinks,
    )


def _sink_row(sink: object) -> PipelineQueryRow:
    values: Mapping[str, Any] = sink if isinstance(sink, Mapping) else {}
    name = str(values.get("sink", ""))[:TEXT_MAX]
    error = values.get("error")
    return PipelineQueryRow(
        name=name,
        state=str(values.get("state", ""))[:TEXT_MAX],
        rows_per_second=_number(values.get("rows_per_second")),
        rows=_whole(_number(values.get("rows"))),
        lag=_whole(_number(values.get("lag"))),
        batch_ms=_whole(_number(values.get("batch_ms"))),
        dropped_rows=_whole(_number(values.get("dropped_rows"))),
        restarts=_whole(_number(values.get("restarts"))),
        error=None if error is None else str(error)[:TEXT_MAX],
        is_dead_letters=name.startswith(DEAD_LETTERS),
    )


def _known(runs: PublishedRuns, name: str) -> PublishedRun:
    found = runs.runs.get(name)
    if found is None:
        raise not_found(f"No run of a pipeline '{name}' is published.")
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Neither NaN nor infinity, which JSON parsers accept, is less.
    return float(value) if abs(value) < _NUMBER_MAX else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _sum(values: list[Any]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
