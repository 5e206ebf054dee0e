"""Worker threads with a queue each; records of one key share a queue, in order.

Note: a slow record delays all keys in its queue, but no other queue. More queues make that rarer.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel import murmur2


class Job:
    """A record for a worker."""

    __slots__ = ("record", "token")

    def __init__(self, record: ConsumerRecord, token: int) -> None:
        self.record = record
        self.token = token


class WorkerLane:
    """A queue and its worker thread."""

    def __init__(self, name: str, work: Callable[[Job], None]) -> None:
        self._work = work
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_open = True
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Start no more records; the one in progress is finished."""
        with self._changed:
            self._is_open = False
            self._jobs.clear()
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _serve(self) -> None:
        while True:
            with self._changed:
                while self._is_open and not self._jobs:
                    self._changed.wait()
                if not self._is_open:
                    return
                job = self._jobs.popleft()
            self._work(job)


class WorkerLanes:
    """All queues and workers."""

    def __init__(self, count: int, work: Callable[[Job], None]) -> None:
        self._lanes = [WorkerLane(f"headwater-worker-{index}", work) for index in range(count)]
        self._turn = 0

    def put(self, job: Job) -> None:
        self._lanes[self._lane_of(job.record)].put(job)

    def close(self, timeout_s: float) -> None:
        for lane in self._lanes:
            lane.close()
        until_s = time.monotonic() + timeout_s
        for lane in self._lanes:
            lane.join(max(0.0, until_s - time.monotonic()))

    def _lane_of(self, record: ConsumerRecord) -> int:
        key: object = record.key
        if key is None:
            # Without a key there is no order to keep: distribute evenly.
            self._turn = (self._turn + 1) % len(self._lanes)
            return self._turn
        raw = key if isinstance(key, bytes) else repr(key).encode()
        # All keys of a partition agree in the hash modulo the partition count, so use other
        # bits of the hash, or some lanes would stay empty.
        return (murmur2(raw) >> 16 & 0x7FFF) % len(self._lanes)
