"""`uniform_assignor` for members that want different topics.

Equal numbers are not always possible then. What is: an assignment in which nobody could pass a
partition on to someone who has at least two fewer, neither directly nor through others who pass
one of theirs on in turn. That is what makes the loads as even as the wishes allow (an optimal
semi-matching). It is reached from what the members had, by moves that each make it more even, so
whoever is well placed stays.

A reader would expect the direct moves to be enough. They are not: A(3) and B(2) share one topic,
B and C(1) another; all get two only if A gives to B and B to C at once.
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
"""From whom, a partition of which topic, to whom."""


def assign_heterogeneous(members: Mapping[str, MemberSpec], counts: PartitionCounts) -> Assignment:
    table = _Table(members, counts)
    table.keep_what_they_had()
    table.place_the_rest()
    while table.move_directly():
        pass
    table.move_along_chains()
    return table.assignment()


class _Table:
    """Who holds which partitions, while it is being worked out."""

    def __init__(self, members: Mapping[str, MemberSpec], counts: PartitionCounts) -> None:
        self._members = members
        self._counts = counts
        self._loads: dict[str, int] = dict.fromkeys(sorted(members), 0)
        self._subscribers: dict[TopicId, list[str]] = {}
        for member_id in self._loads:
            for topic_id in members[member_id].topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
        # Topics with few takers first: theirs is the smallest choice.
        self._topics = sorted(
            self._subscribers, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id)
        )
        self._unowned: dict[TopicId, dict[int, None]] = {
            topic_id: dict.fromkeys(range(counts[topic_id])) for topic_id in self._topics
        }
        self._holders: dict[TopicId, dict[str, list[int]]] = {each: {} for each in self._topics}

    def keep_what_they_had(self) -> None:
        for member_id in self._loads:
            wanted = dict.fromkeys(self._members[member_id].topics)
            for topic_id, partition in sorted(self._members[member_id].had):
                if topic_id in wanted and partition in self._unowned[topic_id]:
                    del self._unowned[topic_id][partition]
                    self._give(member_id, topic_id, partition)

    def place_the_rest(self) -> None:
        for topic_id in self._topics:
            takers = [(self._loads[each], each) for each in self._subscribers[topic_id]]
            heapq.heapify(takers)
            for partition in self._unowned[topic_id]:
                load, member_id = takers[0]
                self._give(member_id, topic_id, partition)
                heapq.heapreplace(takers, (load + 1, member_id))

    def move_directly(self) -> bool:
        """One round over all topics, each time from the fullest to the emptiest."""
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
        """From the emptiest members up: who can reach them has at most one more, and is done."""
        unsettled = dict(self._loads)
        while unsettled:
            low = min(self._loads[each] for each in unsettled)
            reached, path = self._search(low, unsettled)
            for giver, topic_id, taker in path:
                self._pass_on(giver, topic_id, taker)
            if not path:
                for member_id in reached:
                    del unsettled[member_id]

    def _search(self, low: int, unsettled: dict[str, int]) -> tuple[list[str], _Path]:
        """Backwards from the lowest loads: all who can reach them, or else a way to improve."""
        sources = [each for each in unsettled if self._loads[each] == low]
        came_from: dict[str, tuple[TopicId, str] | None] = dict.fromkeys(sources)
        reached, seen_topics = sources, dict[TopicId, None]()
        for taker in reached:
            for topic_id in self._members[taker].topics:
                if topic_id in seen_topics:
                    continue
                seen_topics[topic_id] = None
                for giver in self._holders[topic_id]:
                    if giver in came_from or giver not in unsettled:
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
        # The last to come is the first to go: it is the likeliest to be new to the giver.
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
