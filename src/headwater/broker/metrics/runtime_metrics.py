"""Metrics of the event loop and of Python's garbage collector.

A broker has one event loop where Kafka has request queues and handler threads. Its load is the CPU
time of its thread per second, in place of `RequestHandlerAvgIdlePercent`; its delay is how late a
timer fires that runs ten times a second, in place of `RequestQueueTimeMs`.
"""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

from headwater.broker.metrics.prometheus_exposition import Family, Sample, counter, histogram
from headwater.common.latency_histogram import LatencyHistogram


class GcPauses:
    """Times of garbage collections, which stop all threads. `close` ends the counting."""

    def __init__(self) -> None:
        self.pauses = LatencyHistogram()
        self.collections: dict[int, int] = {}
        self._started_ns = 0
        gc.callbacks.append(self._collected)

    def close(self) -> None:
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        now_ns = time.perf_counter_ns()
        if phase == "start":
            self._started_ns = now_ns
        elif self._started_ns:
            self.pauses.record(now_ns - self._started_ns)
            generation = info["generation"]
            self.collections[generation] = self.collections.get(generation, 0) + 1


def runtime_families(pauses: GcPauses, delay: Callable[[], LatencyHistogram]) -> Iterator[Family]:
    """Return the metrics; they are to be read on the thread of the event loop."""
    yield counter(
        "headwater_event_loop_cpu_seconds_total",
        "CPU time of the event loop; its rate is the load, 1 at most.",
        time.thread_time,
    )
    yield histogram(
        "headwater_event_loop_delay_seconds",
        "How late the event loop calls a timer.",
        delay,
    )
    yield histogram(
        "python_gc_pause_seconds",
        "Pauses for garbage collections of Python.",
        lambda: pauses.pauses,
    )

    def collections() -> Iterator[Sample]:
        for generation, count in sorted(pauses.collections.items()):
            yield Sample(value=count, labels=(("generation", str(generation)),))

    yield Family(
        name="python_gc_collections_total",
        kind="counter",
        doc="Garbage collections by generation.",
        samples=collections,
    )
