"""Metrics of a running pipeline for Prometheus, and their HTTP port."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, Self

from headwater.broker.metrics.prometheus_exposition import (
    CONTENT_TYPE,
    Family,
    Number,
    Sample,
    exposition,
)
from headwater.client.network.loop_thread import LoopThread
from headwater.network.endpoint import Endpoint
from headwater.network.http_listener import HttpListener, HttpResponse
from headwater.pipelines.metrics.lag_monitor import Lag
from headwater.pipelines.metrics.progress_totals import SinkTotals
from headwater.pipelines.run.batch_progress import BatchProgress
from headwater.pipelines.run.query_state import SinkQueryState, SinkState

_SWEEP_EVERY_S: Final = 1.0
_STOP_S: Final = 5.0
_P: Final = "headwater_pipeline_"

Kind = Literal["counter", "gauge"]


class PipelineMetrics:
    """The state of a run, as samples. Other threads replace the values it reads."""

    def __init__(
        self,
        pipeline: str,
        *,
        totals: Callable[[], Mapping[str, SinkTotals]],
        lags: Callable[[], Mapping[str, Lag]],
    ) -> None:
        self._pipeline = pipeline
        self._totals = totals
        self._lags = lags
        self.lives: Sequence[SinkQueryState] = ()

    def families(self) -> list[Family]:
        return [
            self._of_life("running", "Whether the query of a sink runs (0 or 1).", _is_running),
            self._of_life("restarts_total", "Restarts of a sink.", lambda life: life.restarts),
            self._of_total("rows_total", "Rows read.", lambda total: total.rows),
            self._family("bytes_total", "counter", "Bytes of keys and values read.", self._bytes),
            self._of_total("batches_total", "Batches done.", lambda total: total.batches),
            self._of_total(
                "batch_seconds_total", "Sum of batch times.", lambda total: total.seconds
            ),
            self._of_total(
                "dropped_rows_total",
                "Rows dropped because they were older than the watermark.",
                lambda total: total.dropped_rows,
            ),
            self._of_total(
                "dead_letters_total",
                "Records written to the dead-letter topic.",
                lambda total: total.dead_letters,
            ),
            self._of_lag("lag_records", "Records not read yet.", lambda lag: lag.records),
            self._of_lag(
                "lag_seconds",
                "Age of the oldest record not read yet.",
                lambda lag: lag.time_ms / 1000,
            ),
            self._of_batch("last_batch_id", "Id of the last batch.", lambda batch: batch.batch_id),
            self._family(
                "last_batch_phase_seconds", "gauge", "Phases of the last batch.", self._phases
            ),
            self._of_batch(
                "watermark_timestamp_seconds", "Watermark, since the epoch.", _watermark_s
            ),
            self._of_batch("state_rows", "Rows in state.", lambda batch: batch.state_rows),
            self._of_batch(
                "state_bytes", "Memory of state stores.", lambda batch: batch.state_bytes
            ),
        ]

    def _labels(self, sink: str) -> tuple[tuple[str, str], ...]:
        return (("pipeline", self._pipeline), ("sink", sink))

    def _family(
        self, name: str, kind: Kind, doc: str, samples: Callable[[], Iterable[Sample]]
    ) -> Family:
        return Family(name=_P + name, kind=kind, doc=doc, samples=samples)

    def _of_life(self, name: str, doc: str, read: Callable[[SinkQueryState], Number]) -> Family:
        def samples() -> Iterable[Sample]:
            return [Sample(value=read(life), labels=self._labels(life.name)) for life in self.lives]

        kind: Kind = "counter" if name.endswith("_total") else "gauge"
        return self._family(name, kind, doc, samples)

    def _of_total(self, name: str, doc: str, read: Callable[[SinkTotals], Number]) -> Family:
        def samples() -> Iterable[Sample]:
            totals = self._totals()
            return [
                Sample(
                    value=read(totals.get(life.name, SinkTotals())), labels=self._labels(life.name)
                )
                for life in self.lives
            ]

        return self._family(name, "counter", doc, samples)

    def _of_lag(self, name: str, doc: str, read: Callable[[Lag], Number]) -> Family:
        def samples() -> Iterable[Sample]:
            return [
                Sample(value=read(lag), labels=self._labels(sink))
                for sink, lag in sorted(self._lags().items())
            ]

        return self._family(name, "gauge", doc, samples)

    def _of_batch(
        self, name: str, doc: str, read: Callable[[BatchProgress], Number | None]
    ) -> Family:
        def samples() -> Iterable[Sample]:
            found = [
                (life.name, read(life.progress)) for life in self.lives if life.progress is not None
            ]
            return [
                Sample(value=value, labels=self._labels(sink))
                for sink, value in found
                if value is not None
            ]

        return self._family(name, "gauge", doc, samples)

    def _bytes(self) -> Iterable[Sample]:
        return [
            Sample(value=size, labels=(*self._labels(sink), ("source", source)))
            for sink, total in sorted(self._totals().items())
            for source, size in sorted(total.bytes.items())
        ]

    def _phases(self) -> Iterable[Sample]:
        return [
            Sample(value=spent_ms / 1000, labels=(*self._labels(life.name), ("phase", phase)))
            for life in self.lives
            if life.progress is not None
            for phase, spent_ms in sorted(life.progress.phases_ms.items())
        ]


class MetricsServer:
    """Serves `/metrics` and `/healthz` between enter and exit, in a thread of its own."""

    def __init__(
        self,
        endpoint: Endpoint,
        families: Callable[[], Sequence[Family]],
        *,
        steady_ms: Callable[[], int],
    ) -> None:
        self._endpoint = endpoint
        self._families = families
        self._steady_ms = steady_ms
        self._listener: HttpListener | None = None

    def __enter__(self) -> Self:
        self._thread = LoopThread("pipeline-metrics")
        self._thread.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._close())
        self._thread.stop(timeout_s=_STOP_S)

    @property
    def url(self) -> str:
        assert self._listener is not None, "between enter and exit"
        bound = self._listener.endpoint
        return f"http://{bound.host}:{bound.port}/metrics"

    async def _start(self) -> None:
        self._listener = HttpListener(
            self._thread.loop, self._endpoint, self._answer, now_ms=self._steady_ms()
        )
        self._listener.start()
        self._sweep()

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _sweep(self) -> None:
        if self._listener is not None:
            self._listener.sweep(self._steady_ms())
            self._thread.loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def _answer(self, path: str) -> HttpResponse | None:
        match path:
            case "/metrics":
                return HttpResponse(content_type=CONTENT_TYPE, pieces=exposition(self._families()))
            case "/healthz":
                return HttpResponse(content_type="text/plain", pieces=iter([b"ok\n"]))
        return None


def _is_running(life: SinkQueryState) -> int:
    return int(life.state is SinkState.RUNNING)


def _watermark_s(batch: BatchProgress) -> float | None:
    if batch.watermark is None:
        return None
    return datetime.fromisoformat(batch.watermark).timestamp()
