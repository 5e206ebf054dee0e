"""Explain why a consumer group is behind, from two looks at its offsets. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_EMPTY: Final = "empty"
_REBALANCING: Final = ("preparingrebalance", "completingrebalance", "assigning", "reconciling")
SKEW_PERCENT: Final = 80
_SKEW_PARTITIONS: Final = 3
CONCLUSIVE_S: Final = 5.5
"""Longer than auto.commit.interval.ms: a consumer that works has committed meanwhile."""
_NAMES_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """A partition at the first look, and what had changed at the second.

    `stable_end` is the last stable offset, at which read_committed consumers stop. Offsets are None
    if the group has not committed one, or the partition has no leader.
    """

    name: str
    offset: int | None
    start: int | None
    end: int | None
    stable_end: int | None
    owner: str | None
    committed_records: int = 0
    produced_records: int = 0

    @property
    def lag(self) -> int:
        if self.offset is None or self.end is None:
            return 0
        return max(self.end - self.offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A group: its state, and its partitions observed for `seconds` (0: one look)."""

    group: str
    state: str
    members: int
    partitions: Sequence[ObservedPartition]
    seconds: float

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagCause:
    """One reason, what was seen, and what to do next."""

    cause: str
    evidence: str
    next_step: str


def lag_causes(found: ObservedGroup) -> list[LagCause]:
    """Return the reasons, the most certain ones first; without lag, one says so."""
    if not found.partitions and not found.members:
        return [
            LagCause(
                cause="never-committed",
                evidence="The group has no members and no committed offsets.",
                next_step="Check the group id; without commits, a consumer starts at "
                "auto.offset.reset.",
            )
        ]
    causes = [
        *_unavailable(found),
        *_lost(found),
        *_group_state(found),
        *_assignment(found),
        *_transactions(found),
        *_progress(found),
        *_skew(found),
    ]
    if not causes and found.lag == 0:
        return [
            LagCause(
                cause="no-lag",
                evidence="The committed offsets are the end offsets of all partitions.",
                next_step="Nothing to do.",
            )
        ]
    return causes or [
        LagCause(
            cause="unknown",
            evidence=f"Lag of {found.lag} records, seen once.",
            next_step="Observe the group for 6 seconds or longer to see whether it advances.",
        )
    ]


def _unavailable(found: ObservedGroup) -> Iterator[LagCause]:
    offline = [each.name for each in found.partitions if each.end is None]
    if offline:
        yield LagCause(
            cause="no-leader",
            evidence=f"No leader: {_names(offline)}.",
            next_step="Start the brokers that hold their replicas; headwater doctor names them.",
        )


def _lost(found: ObservedGroup) -> Iterator[LagCause]:
    deleted = [
        (each.name, each.start - each.offset)
        for each in found.partitions
        if each.offset is not None and each.start is not None and each.offset < each.start
    ]
    if deleted:
        count = sum(records for _, records in deleted)
        yield LagCause(
            cause="behind-retention",
            evidence=f"{count} records were deleted before the group read them: "
            f"{_names([name for name, _ in deleted])}.",
            next_step="Longer retention.ms for the topic, and a faster or more regular consumer; "
            "auto.offset.reset decides where it goes on.",
        )
    beyond = [
        each.name
        for each in found.partitions
        if each.offset is not None and each.end is not None and each.offset > each.end
    ]
    if beyond:
        yield LagCause(
            cause="beyond-end",
            evidence=f"The committed offset is larger than the end offset: {_names(beyond)}.",
            next_step="The topic was truncated or created again: reset the group's offsets "
            "(headwater groups reset-offsets).",
        )


def _group_state(found: ObservedGroup) -> Iterator[LagCause]:
    state = found.state.lower()
    if found.members == 0 or state == _EMPTY:
        if found.lag:
            yield LagCause(
                cause="no-members",
                evidence=f"The group is {found.state} and {found.lag} records behind: no consumer "
                "runs.",
                next_step="Start the consumers, and look at their logs for why they ended.",
            )
    elif state in _REBALANCING:
        yield LagCause(
            cause="rebalance",
            evidence=f"The group is in state {found.state} with {found.members} members: no "
            "records are processed meanwhile.",
            next_step="If this lasts or repeats: processing takes longer than "
            "max.poll.interval.ms, or members lose their heartbeats; group.instance.id avoids "
            "rebalances at restarts.",
        )


def _assignment(found: ObservedGroup) -> Iterator[LagCause]:
    if found.members == 0 or found.state.lower() in _REBALANCING:
        return
    ownerless = [each.name for each in found.partitions if each.owner is None and each.lag]
    if ownerless:
        yield LagCause(
            cause="unassigned-partitions",
            evidence=f"No member reads {_names(ownerless)}.",
            next_step="No member subscribes to the topic any more, or members assign partitions "
            "by hand and leave these out.",
        )


def _transactions(found: ObservedGroup) -> Iterator[LagCause]:
    held = [
        each.name
        for each in found.partitions
        if each.offset is not None
        and each.stable_end is not None
        and each.end is not None
        and each.stable_end < each.end
        and each.offset >= each.stable_end
    ]
    if held:
        yield LagCause(
            cause="open-transaction",
            evidence=f"All that is left is behind an open transaction: {_names(held)}. Consumers "
            "with isolation.level=read_committed wait for it.",
            next_step="headwater transactions list; if its producer is gone: headwater "
            "transactions find-hanging.",
        )


def _progress(found: ObservedGroup) -> Iterator[LagCause]:
    read = [each for each in found.partitions if each.owner is not None and each.lag]
    if found.seconds <= 0 or not read:
        return
    stuck = [each.name for each in read if each.committed_records <= 0]
    if stuck and found.seconds >= CONCLUSIVE_S:
        yield LagCause(
            cause="no-progress",
            evidence=f"Members own {_names(stuck)}, but committed nothing there for "
            f"{found.seconds:.0f} s.",
            next_step="Look at the consumer's log for a record that fails again and again, a slow "
            "call, or missing commits; sample the records at the committed offset.",
        )
    consumed = sum(each.committed_records for each in read) / found.seconds
    produced = sum(each.produced_records for each in read) / found.seconds
    if consumed <= 0:
        return
    rates = f"{consumed:.0f} records/s are committed and {produced:.0f} records/s produced"
    if consumed <= produced:
        partitions = len(found.partitions)
        more = (
            f"Add consumers: the group has {found.members} for {partitions} partitions."
            if found.members < partitions
            else "Every partition has a member of its own: add partitions, or make processing "
            "faster."
        )
        yield LagCause(
            cause="too-slow", evidence=f"{rates}: the lag does not shrink.", next_step=more
        )
    else:
        seconds = found.lag / (consumed - produced)
        yield LagCause(
            cause="catching-up",
            evidence=f"{rates}: the lag of {found.lag} records shrinks.",
            next_step=f"At this rate the group has caught up in about {seconds:.0f} s.",
        )


def _skew(found: ObservedGroup) -> Iterator[LagCause]:
    if len(found.partitions) < _SKEW_PARTITIONS or found.lag == 0:
        return
    worst = max(found.partitions, key=lambda each: each.lag)
    if 100 * worst.lag > SKEW_PERCENT * found.lag:
        yield LagCause(
            cause="one-partition",
            evidence=f"{worst.name} has {worst.lag} of {found.lag} records of the lag.",
            next_step="Many records have the same key, or its member is slower than the others: "
            f"compare the members; its member is {worst.owner or 'none'}.",
        )


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown} and {len(names) - _NAMES_MAX} more"
