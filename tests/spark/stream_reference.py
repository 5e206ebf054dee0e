"""The expected results of streaming queries, computed in plain Python from batches of events.

Batches are those of Spark, read from the checkpoint. A batch uses the watermarks of the batches
before it: it closes the windows that end before the latest watermark, and drops events for windows
that were closed earlier.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Offsets = Mapping[int, int]
"""Of each partition, the first offset that is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record of the topic."""

    user: str
    at_ms: int
    amount: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one batch of a query, possibly none."""

    events: tuple[Event, ...]


def batches_of(checkpoint: Path, topic: str, log: Mapping[int, list[Event]]) -> Iterator[Batch]:
    """The batches that a query has completed, from the offsets in its checkpoint."""
    before: Offsets = dict.fromkeys(log, 0)
    for until in ends_of_batches(checkpoint, topic):
        yield Batch(
            tuple(
                event
                for partition in sorted(log)
                for event in log[partition][before[partition] : until[partition]]
            )
        )
        before = until


def ends_of_batches(checkpoint: Path, topic: str) -> Iterator[Offsets]:
    """The end offsets of each batch that a query has completed."""
    number = 0
    while (checkpoint / "commits" / str(number)).exists():
        lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
        told = json.loads(lines[2])[topic]
        yield {int(partition): int(offset) for partition, offset in told.items()}
        number += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A closed window."""

    user: str
    start_ms: int
    count: int
    amount: int


def tumbling(batches: list[Batch], *, size_ms: int, delay_ms: int) -> list[Window]:
    """Windows by event time, each written once, when the watermark has passed its end."""
    open_windows: dict[tuple[str, int], list[int]] = {}
    closed: list[Window] = []
    late_before_ms = watermark_ms = 0
    newest_ms = 0
    for batch in batches:
        for event in batch.events:
            start_ms = event.at_ms - event.at_ms % size_ms
            if start_ms + size_ms <= late_before_ms:
                continue
            open_windows.setdefault((event.user, start_ms), []).append(event.amount)
        for (user, start_ms), amounts in sorted(open_windows.items()):
            if start_ms + size_ms <= watermark_ms:
                del open_windows[user, start_ms]
                closed.append(
                    Window(user=user, start_ms=start_ms, count=len(amounts), amount=sum(amounts))
                )
        newest_ms = max([newest_ms, *(event.at_ms for event in batch.events)])
        late_before_ms = watermark_ms
        watermark_ms = max(watermark_ms, newest_ms - delay_ms)
    return closed


def sessions(batches: list[Batch], *, gap_ms: int, delay_ms: int) -> list[Window]:
    """Sessions of events that are less than a gap apart, each written once, when it ends."""
    # For each user, sessions as start, end, and amounts.
    known: dict[str, list[tuple[int, int, list[int]]]] = {}
    closed: list[Window] = []
    late_before_ms = watermark_ms = newest_ms = 0
    for batch in batches:
        for event in batch.events:
            if event.at_ms + gap_ms <= late_before_ms:
                continue
            known[event.user] = merged(
                [*known.get(event.user, []), (event.at_ms, event.at_ms + gap_ms, [event.amount])]
            )
        for user, mine in sorted(known.items()):
            for start_ms, end_ms, amounts in mine:
                if end_ms <= watermark_ms:
                    closed.append(
                        Window(
                            user=user, start_ms=start_ms, count=len(amounts), amount=sum(amounts)
                        )
                    )
            known[user] = [each for each in mine if each[1] > watermark_ms]
        newest_ms = max([newest_ms, *(event.at_ms for event in batch.events)])
        late_before_ms = watermark_ms
        watermark_ms = max(watermark_ms, newest_ms - delay_ms)
    return closed


def merged(sessions: list[tuple[int, int, list[int]]]) -> list[tuple[int, int, list[int]]]:
    """Merge sessions that touch."""
    found: list[tuple[int, int, list[int]]] = []
    for start_ms, end_ms, amounts in sorted(sessions, key=lambda each: each[:2]):
        if found and start_ms <= found[-1][1]:
            first_ms, last_ms, before = found[-1]
            found[-1] = (first_ms, max(last_ms, end_ms), before + amounts)
        else:
            found.append((start_ms, end_ms, amounts))
    return found


def totals(batches: list[Batch]) -> dict[str, list[int]]:
    """The sums written for each user: one per batch with an event of that user."""
    sums: dict[str, int] = {}
    written: dict[str, list[int]] = {}
    for batch in batches:
        for event in batch.events:
            sums[event.user] = sums.get(event.user, 0) + event.amount
        for user in sorted({event.user for event in batch.events}):
            written.setdefault(user, []).append(sums[user])
    return written
