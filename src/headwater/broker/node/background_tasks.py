"""Periodic work: request timeouts, log maintenance, idle connections.

All work runs on the event loop in small steps. Request timeouts have their own timer, set for the
earliest deadline; everything else runs ten times or once a second.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headwater.broker.coordinators.coordinators import Coordinators
from headwater.common.elapsed import has_passed
from headwater.common.exceptions import HeadwaterError
from headwater.common.latency_histogram import LatencyHistogram
from headwater.common.ports import Clock
from headwater.network.http_listener import HttpListener
from headwater.network.socket_server import SocketServer
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.log_manager.log_manager import LogManager

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.1
_SWEEP_MS: Final = 1_000
_NS_PER_S: Final = 1_000_000_000
# A tenth of the loop's time: opening ten thousand new topics must not delay other requests.
_LOADING_MS: Final = 10


class BackgroundTasks:
    """Run periodic work between `start` and `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        directories: LogManager,
        partitions: ReplicaManager,
        coordinators: Coordinators,
        cleaner: LogCleaner | None,
        timer: Timer,
        server: SocketServer,
        metrics_port: HttpListener | None,
        store_failure: Callable[[], HeadwaterError | None],
        directory_failed: Callable[[], None],
        tick: Callable[[], None],
        sweep: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Set the callbacks.

        `tick` is called ten times a second, `sweep` once, `directory_failed` per failed directory.
        """
        self._loop = loop
        self._clock = clock
        self._directories = directories
        self._partitions = partitions
        self._coordinators = coordinators
        self._cleaner = cleaner
        self._request_timer = timer
        self._server = server
        self._metrics_port = metrics_port
        self._store_failure = store_failure
        self._directory_failed = directory_failed
        self._tick_others = tick
        self._sweep_others = sweep
        self._broken = on_failure
        self._fenced: dict[object, None] = {}
        self._swept_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        # How late ticks are: the time that any callback waits for the loop.
        self.loop_delay = LatencyHistogram()
        self._expiry_handle: asyncio.TimerHandle | None = None
        timer.wake_with(self._schedule_expiry)

    def start(self) -> None:
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def stop(self) -> None:
        for handle in (self._timer, self._expiry_handle):
            if handle is not None:
                handle.cancel()

    def _tick(self) -> None:
        if self._timer is not None:
            late_s = self._loop.time() - self._timer.when()
            self.loop_delay.record(int(late_s * _NS_PER_S))
        self._timer = self._loop.call_later(_TICK_S, self._tick)
        now_ms = self._clock.now_ms()
        self._partitions.open_some(_LOADING_MS)
        self._coordinators.groups.load_some(_LOADING_MS)
        self._coordinators.transactions.load_some(_LOADING_MS)
        self._coordinators.add_partitions_to_txn_manager.tick(now_ms)
        self._tick_others()
        self._directories.tick(now_ms)
        self._log_moves()
        if self._cleaner is not None:
            self._cleaner.tick(now_ms)
        self._sweep(self._clock.steady_ms())
        self._check_failures()

    def _log_moves(self) -> None:
        moves = self._directories.moves
        if moves.changed_partitions:
            news, moves.changed_partitions = moves.changed_partitions, []
            for each in news:
                _log.info("%s", each)

    def _sweep(self, steady_ms: int) -> None:
        """Once a second. Uses the steady clock: the wall clock may be set back or ahead."""
        if has_passed(self._swept_ms, _SWEEP_MS, steady_ms):
            self._swept_ms = steady_ms
            self._server.sweep(steady_ms)
            self._request_timer.expire_disconnected()
            self._sweep_others()
            if self._metrics_port is not None:
                self._metrics_port.sweep(steady_ms)

    def _check_failures(self) -> None:
        for directory in self._directories.directories:
            if directory.failure is not None and directory not in self._fenced:
                self._fenced[directory] = None
                _log.error(
                    "Log directory is offline: path=%s error=%s", directory.path, directory.failure
                )
                self._directory_failed()
        if not self._directories.serving():
            self._broken("no log directory is left")
            return
        failure = self._store_failure()
        if failure is not None:
            # The state on disk is unknown from here on; only a restart can establish it.
            self._broken(f"cluster metadata cannot be written: {failure}")

    def _schedule_expiry(self, deadline_ms: int) -> None:
        if self._expiry_handle is not None:
            self._expiry_handle.cancel()
        delay_ms = max(0, deadline_ms - self._clock.steady_ms())
        self._expiry_handle = self._loop.call_later(delay_ms / 1_000, self._expire)

    def _expire(self) -> None:
        self._expiry_handle = None
        try:
            self._request_timer.expire(self._clock.steady_ms())
        finally:
            # If one expiry fails, the other waiting requests must still time out.
            if self._request_timer.next_ms is not None:
                self._schedule_expiry(self._request_timer.next_ms)
