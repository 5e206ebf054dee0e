"""Clients that outlive a task: Spark's Python workers run many, and connecting costs time.

What a reader would get wrong: this is the one place of the package with state of its own, because a
worker process offers no other. It is bounded, and a client that failed is not used again. A process
that was forked has none of its parent's clients: their threads did not come along.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from headwater.client.consumer.range_reader import RangeReader
from headwater.client.errors import KafkaError

_KEPT_MAX: Final = 8

_Key = tuple[int, tuple[tuple[str, str], ...]]
_readers: "OrderedDict[_Key, RangeReader]" = OrderedDict()


def kept_reader(settings: Mapping[str, str]) -> RangeReader:
    """A reader with these settings, from an earlier task if there was one."""
    key = _key(settings)
    reader = _readers.pop(key, None)
    if reader is None:
        reader = RangeReader(settings)
    _readers[key] = reader
    while len(_readers) > _KEPT_MAX:
        _, oldest = _readers.popitem(last=False)
        _close(oldest)
    return reader


def drop_reader(settings: Mapping[str, str]) -> None:
    """The reader has failed; the next task gets another one."""
    reader = _readers.pop(_key(settings), None)
    if reader is not None:
        _close(reader)


def _key(settings: Mapping[str, str]) -> _Key:
    return os.getpid(), tuple(sorted(settings.items()))


def _close(reader: RangeReader) -> None:
    with suppress(KafkaError):
        reader.close()
