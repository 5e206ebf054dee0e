"""Uniform assignor for members with different subscriptions.

Equal numbers are not always possible then. The result is an assignment in which no member can pass
a partition to one that has at least two fewer, neither directly nor through a chain of members that
each pass one on. This makes the loads as even as the subscriptions allow (an optimal
semi-matching). It starts from the previous assignment and makes only moves that even it out, so
most partitions stay.

Note: direct moves are not enough. A(3) and B(2) share one topic, B and C(1) another: all get two
only if A gives to B and B to C at the same time.
"""

import heapq
from collections.abc import Mapping

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import (
    Assignment,
    MemberSpec,
    PartitionCounts,
    TopicIdPartition,
)

_Path = list[tuple[str, TopicId, str]]
"""Moves: giver, topic, taker."""


def assign_heterogeneous(members: Mapping[str, MemberSpec], counts: PartitionCounts) -> Assignment:
    table = _Table(members, counts)
    table.keep_previous()
    table.assign_rest()
    while table.move_directly():
        pass
    table.move_along_chains()
    return table.assignment()


class _Table:
    """The assignment while it is computed."""

    def __init__(self, members: Mapping[str, MemberSpec], counts: PartitionCounts) -> None:
        self._members = members
        self._counts = counts
        self._loads: dict[str, int] = dict.fromkeys(sorted(members), 0)
        self._subscribers: dict[TopicId, list[str]] = {}
        for member_id in self._loads:
            for topic_id in members[member_id].topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
        # Topics with few subscribers first, since they have the least choice.
        self._topics = sorted(
            self._subscribers, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id)
        )
        self._unowned: dict[TopicId, dict[int, None]] = {
            topic_id: dict.fromkeys(range(counts[topic_id])) for topic_id in self._topics
        }
        self._holders: dict[TopicId, dict[str, list[int]]] = {each: {} for each in self._topics}

    def keep_previous(self) -> None:
        for member_id in self._loads:
            wanted = dict.fromkeys(self._members[member_id].topics)
            for topic_id, partition in sorted(self._members[member_id].owned):
                if topic_id in wanted and partition in self._unowned[topic_id]:
                    del self._unowned[topic_id][partition]
                    self._give(member_id, topic_id, partition)

    def assign_rest(self) -> None:
        for topic_id in self._topics:
            takers = [(self._loads[each], each) for each in self._subscribers[topic_id]]
            heapq.heapify(takers)
            for partition in self._unowned[topic_id]:
                load, member_id = takers[0]
                self._give(member_id, topic_id, partition)
                heapq.heapreplace(takers, (load + 1, member_id))

    def move_directly(self) -> bool:
        """One pass over all topics, moving from the most to the least loaded members."""
        moved = False
        for topic_id in self._topics:
            givers = [(-self._loads[each], each) for each in self._holders[topic_id]]
            takers = [(self._loads[each], each) for each in self._subscribers[topic_id]]
            heapq.heapify(givers)
            heapq.heapify(takers)
            while givers and -givers[0][0] >= takers[0][0] + 2:
                giver, taker = givers[0][1], takers[0][1]
                self._pass_on(giver, topic_id, taker)
                moved = True
                heapq.heapreplace(takers, (self._loads[taker], taker))
                if giver in self._holders[topic_id]:
                    heapq.heapreplace(givers, (-self._loads[giver], giver))
                else:
                    heapq.heappop(givers)
        return moved

    def move_along_chains(self) -> None:
        """Start from the least loaded: members that can reach these have at most one more."""
        open_members = dict(self._loads)
        while open_members:
            low = min(self._loads[each] for each in open_members)
            reached, path = self._search(low, open_members)
            for giver, topic_id, taker in path:
                self._pass_on(giver, topic_id, taker)
            if not path:
                for member_id in reached:
                    del open_members[member_id]

    def _search(self, low: int, open_members: dict[str, int]) -> tuple[list[str], _Path]:
        """Search backwards from the lowest loads for members, or an improvement."""
        sources = [each for each in open_members if self._loads[each] == low]
        came_from: dict[str, tuple[TopicId, str] | None] = dict.fromkeys(sources)
        reached, seen_topics = sources, dict[TopicId, None]()
        for taker in reached:
            for topic_id in self._members[taker].topics:
                if topic_id in seen_topics:
                    continue
                seen_topics[topic_id] = None
                for giver in self._holders[topic_id]:
                    if giver in came_from or giver not in open_members:
                        continue
                    came_from[giver] = (topic_id, taker)
                    reached.append(giver)
                    if self._loads[giver] >= low + 2:
                        return reached, _path_of(giver, came_from)
        return reached, []

    def assignment(self) -> Assignment:
        given: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in self._loads}
        for topic_id, holders in self._holders.items():
            for member_id, partitions in holders.items():
                given[member_id].extend(TopicIdPartition(topic_id, each) for each in partitions)
        return {member_id: frozenset(partitions) for member_id, partitions in given.items()}

    def _give(self, member_id: str, topic_id: TopicId, partition: int) -> None:
        self._holders[topic_id].setdefault(member_id, []).append(partition)
        self._loads[member_id] += 1

    def _pass_on(self, giver: str, topic_id: TopicId, taker: str) -> None:
        partitions = self._holders[topic_id][giver]
        # Take the last one: it is the most likely to be new to the giver.
        self._give(taker, topic_id, partitions.pop())
        self._loads[giver] -= 1
        if not partitions:
            del self._holders[topic_id][giver]


def _path_of(giver: str, came_from: dict[str, tuple[TopicId, str] | None]) -> _Path:
    path: _Path = []
    step = came_from[giver]
    while step is not None:
        topic_id, taker = step
        path.append((giver, topic_id, taker))
        giver, step = taker, came_from[taker]
    return path
