"""Lagging consumers with a cache on another lossy disk, beside everything that changes logs.

Whatever happens to a log between a read and the next one, the cache may only return the bytes that
the log has. Its disk fails and loses data by itself.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import PurePath
from typing import Final

from headwater.storage.io.file_range import FileRange
from headwater.storage.io.segment_cache import RETRY_MS, CachedRange, CacheLimits, SegmentCache
from headwater.storage.log.local_log import LocalLog
from tests.simulation.fakes.batches import Broken
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk

LIMIT_BYTES: Final = 6_000
_FOLDER: Final = PurePath("/ssd/broker-1")


class CachedReads:
    """The cache over all lives of the process."""

    def __init__(self, seed: int | str) -> None:
        self.hit_count = 0
        self.rng = random.Random(f"{seed} cached reads")
        self._disk = LossyDisk(random.Random(f"{seed} fast disk"))
        self._executor = HeldExecutor(random.Random(f"{seed} cache executor"))
        self._now_ms = 0
        self._disk.make_directory(_FOLDER.parent)

    def start(self) -> None:
        self._unkept: list[tuple[FileRange, int, bytes]] = []
        self._cache = SegmentCache(
            self._disk,
            _FOLDER,
            limits=CacheLimits(size_bytes=LIMIT_BYTES, min_reads=self.rng.choice([1, 2])),
            reader=self._executor,
            writer=self._executor,
            drop_pages=lambda *_: None,
            steady_ms=lambda: self._now_ms,
        )
        self._cache.start()

    def end(self, *, is_power_cut: bool) -> None:
        self._executor.crash()
        if is_power_cut:
            self._disk.power_cut()
        else:
            self._disk.process_crash()

    def read(self, body: LocalLog, found: FileRange) -> None:
        """Read a range through the cache; some time later, keep what was missing."""
        expected, generation = found.read(), body.truncations

        def deliver(content: CachedRange) -> None:
            if content.read() != expected:
                raise Broken(f"the cache has other bytes of {found}")
            self.hit_count += 1
            self._executor.submit(lambda: None, then=partial(_release, content), on_error=_fail)

        def read_log() -> None:
            self._unkept.append((found, generation, expected))

        if not self._cache.read(found, generation, deliver, read_log):
            read_log()
        self._go_on()

    def _go_on(self) -> None:
        """Let some time pass for the cache, and sometimes trouble its disk."""
        self._now_ms += RETRY_MS // 20
        if self.rng.random() < 0.02:
            self.rng.choice([self._disk.fail_next_sync, self._disk.fail_next_write])()
        if self.rng.random() < 0.02:
            self.rng.choice([self._disk.fill, self._disk.make_room, self._disk.make_room])()
        for _ in range(self.rng.randint(0, 6)):
            self._executor.step()
        while self._unkept and self.rng.random() < 0.7:
            found, generation, content = self._unkept.pop(0)
            self._cache.keep(found, generation, content, readers=1)
        if self._cache.used_bytes > LIMIT_BYTES:
            raise Broken(f"the cache has {self._cache.used_bytes} bytes")


def _release(content: CachedRange, _: object) -> None:
    content.release()


def _fail(error: Exception) -> None:
    raise Broken(str(error))
