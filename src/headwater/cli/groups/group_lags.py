"""Lag of groups by partition: committed offsets, end offsets and the next record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.cli.terminal import outcomes_of

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.admin.descriptions import GroupDescription, MemberDescription
    from headwater.client.consumer.lag_reader import LagReader

DESCRIBED_MAX = 200
"""Groups that `groups list` describes without --lag."""

_LATEST = -1
_EARLIEST = -2


def group_lags(admin: "Admin", group: "GroupDescription") -> list[dict[str, object]]:
    """Return a row per partition with a committed offset or an owner."""
    committed = {
        place: found.offset for place, found in admin.list_group_offsets(group.group_id).items()
    }
    owners = {place: each for each in group.members for place in each.assignment}
    ends = end_offsets(admin, {*committed, *owners})
    return lag_rows(group.group_id, committed, ends, owners)


def end_offsets(admin: "Admin", places: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
    """Return the log end offsets of the partitions that have a leader."""
    asked = dict.fromkeys(led_partitions(admin, places), _LATEST)
    return {place: found.offset for place, found in admin.list_offsets(asked).items()}


def led_partitions(admin: "Admin", places: "Iterable[TopicPartition]") -> "list[TopicPartition]":
    """Keep partitions with a leader; ListOffsets would retry others until the timeout."""
    wanted = sorted(places)
    topics = sorted({place.topic for place in wanted})
    described, _ = outcomes_of(lambda: admin.describe_topics(topics) if topics else {})
    leaders = {
        (topic.name, each.partition): each.leader_id
        for topic in described.values()
        for each in topic.partitions
    }
    return [place for place in wanted if leaders.get((place.topic, place.partition), -1) >= 0]


def lag_rows(
    group: str,
    committed: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int]",
    owners: "Mapping[TopicPartition, MemberDescription]",
) -> list[dict[str, object]]:
    """Return a row per partition; `end` and `lag` are None without a leader."""
    rows: list[dict[str, object]] = []
    for place in sorted({*committed, *owners}):
        offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
        rows.append(
            {
                "group": group,
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "client": None if owner is None else owner.client_id,
                "member": None if owner is None else owner.member_id,
                "host": None if owner is None else owner.client_host,
            }
        )
    return rows


def group_summaries(admin: "Admin", groups: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return assignor, members and lag of each group that can be described.

    One ListOffsets request per leader answers for the partitions of all groups.
    """
    described, _ = outcomes_of(lambda: admin.describe_groups(groups) if groups else {})
    committed = {name: _committed(admin, name) for name in described}
    ends = end_offsets(admin, {place for places in committed.values() for place in places})
    return {
        name: {
            "assignor": group.assignor,
            "members": len(group.members),
            "lag": _total_lag(committed[name], ends),
        }
        for name, group in described.items()
    }


def _committed(admin: "Admin", group: str) -> "dict[TopicPartition, int]":
    from headwater.client.errors import KafkaError

    try:
        found = admin.list_group_offsets(group)
    except KafkaError:
        # The group was deleted meanwhile, or is not authorized.
        return {}
    return {place: at.offset for place, at in found.items() if at.offset >= 0}


def _total_lag(
    committed: "Mapping[TopicPartition, int]", ends: "Mapping[TopicPartition, int]"
) -> int | None:
    if not committed or any(place not in ends for place in committed):
        return None
    return sum(max(ends[place] - offset, 0) for place, offset in committed.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLag:
    """Lag of a group in a partition, by the partition's log.

    `time_ms` is the age of the next record by its timestamp. `lost` counts the records that
    retention deleted before the group read them. Both are 0 without lag; everything but the offset
    is None without a leader.
    """

    group: str
    place: "TopicPartition"
    offset: int
    end: int | None = None
    records: int | None = None
    time_ms: int | None = None
    lost: int | None = None

    def is_above(self, max_records: int | None, max_time_ms: int | None) -> bool:
        """Return whether the lag exceeds a limit."""
        return (
            max_records is not None and self.records is not None and self.records > max_records
        ) or (max_time_ms is not None and self.time_ms is not None and self.time_ms > max_time_ms)


def exact_lags(
    admin: "Admin", reader: "LagReader", groups: Iterable[str], *, now_ms: int
) -> list[ExactLag]:
    """Measure the lag of groups; one batch is fetched per partition with lag."""
    committed = {
        (group, place): found.offset
        for group in groups
        for place, found in admin.list_group_offsets(group).items()
        if found.offset >= 0
    }
    led = led_partitions(admin, {place for _, place in committed})
    ends = {
        place: at.offset for place, at in admin.list_offsets(dict.fromkeys(led, _LATEST)).items()
    }
    starts = {
        place: at.offset for place, at in admin.list_offsets(dict.fromkeys(led, _EARLIEST)).items()
    }
    # Several groups may wait at the same record.
    times_ms: dict[tuple[TopicPartition, int], int | None] = {}
    lags = []
    for (group, place), offset in sorted(committed.items()):
        end = ends.get(place)
        if end is None:
            lags.append(ExactLag(group=group, place=place, offset=offset))
            continue
        start = max(offset, starts[place])
        if start < end and (place, start) not in times_ms:
            times_ms[place, start] = reader.first_timestamp_ms(place, start, end)
        timestamp_ms = times_ms.get((place, start))
        lags.append(
            ExactLag(
                group=group,
                place=place,
                offset=offset,
                end=end,
                records=max(end - offset, 0),
                time_ms=0 if timestamp_ms is None else max(now_ms - timestamp_ms, 0),
                lost=start - offset,
            )
        )
    return lags
