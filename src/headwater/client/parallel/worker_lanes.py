"""N queues and N workers: what has the same key is in the same queue, and so stays in order.

Each worker is a thread that takes from one queue. What a reader would get wrong: a slow record
holds up its own queue only, but all keys in it. More queues make that rarer.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel import murmur2


class Job:
    """A record on its way to a worker."""

    __slots__ = ("record", "token")

    def __init__(self, record: ConsumerRecord, token: int) -> None:
        self.record = record
        self.token = token


class WorkerLane:
    """One queue and its worker."""

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
        """Begin nothing more. What is being worked on is finished."""
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
    """All queues."""

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
            # Nothing to keep in order, so all take turns.
            self._turn = (self._turn + 1) % len(self._lanes)
            return self._turn
        raw = key if isinstance(key, bytes) else repr(key).encode()
        # All keys of a partition have the remainder in common by which it was chosen, so the same
        # hash must be taken by other bits, or some lanes would stay empty.
        return (murmur2(raw) >> 16 & 0x7FFF) % len(self._lanes)
