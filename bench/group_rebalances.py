"""Time until many groups are stable, when all members join at once and when some leave.

Note: client and broker share the machine, and five hundred members in one Python process cost about
as much as the broker's side of them. The broker's CPU time is reported separately.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.group_members import (
    ClassicMember,
    Connection,
    ConsumerMember,
    GroupMember,
    are_settled,
)
from bench.harness import Bench
from bench.processes import Server, broker
from bench.topics import create_topic
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

GROUPS: Final = 50
MEMBERS_PER_GROUP: Final = 10
PARTITIONS: Final = 20
TOPIC: Final = "shared-out"

_LOOK_S: Final = 0.01
_TIMEOUT_S: Final = 120

NewMember = Callable[[int, str, int], GroupMember]
"""Creates a member from a port, a group and a number in it."""


def measure(bench: Bench) -> None:
    kinds: dict[str, NewMember] = {
        "classic": lambda port, group_id, _: ClassicMember(port, group_id, PARTITIONS),
        "consumer": lambda port, group_id, number: ConsumerMember(port, group_id, TOPIC, number),
    }
    for name, new_member in kinds.items():
        # Without a delay every new member is a rebalance: the hardest way to start.
        with broker("group.initial.rebalance.delay.ms=0") as (server, _):
            create_topic(server, TOPIC, PARTITIONS)
            asyncio.run(_measure(bench, name, server, new_member))


async def _measure(bench: Bench, name: str, server: Server, new_member: NewMember) -> None:
    await find_coordinators(server)
    groups = [
        [new_member(server.port, f"group-{each}", number) for number in range(MEMBERS_PER_GROUP)]
        for each in range(GROUPS)
    ]
    members = [member for group in groups for member in group]
    watch = Stopwatch(server)
    tasks = {id(member): asyncio.create_task(member.live()) for member in members}
    await _settle(groups)
    watch.record(bench, f"{name}: {len(members)} members join {GROUPS} groups", at_most=10)
    leaving = [group.pop() for group in groups]
    gone = [tasks.pop(id(member)) for member in leaving]
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    watch = Stopwatch(server)
    await asyncio.gather(*(member.leave() for member in leaving))
    await _settle(groups)
    watch.record(bench, f"{name}: one of each group leaves", at_most=5)
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    for member in members:
        member.close()


class Stopwatch:
    """Measures elapsed time and the broker's CPU time from its creation on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu_seconds = server.cpu_seconds
        self._began = time.perf_counter()

    def record(self, bench: Bench, name: str, *, at_most: float) -> None:
        seconds = time.perf_counter() - self._began
        cpu_seconds = self._server.cpu_seconds - self._cpu_seconds
        against = f"{cpu_seconds:.2f} s of the broker's CPU time"
        bench.record(
            f"{name} until all settle", seconds, "s", compared_with=against, at_most=at_most
        )


async def _settle(groups: Sequence[Sequence[GroupMember]]) -> None:
    deadline = time.perf_counter() + _TIMEOUT_S
    while not all(are_settled(group, PARTITIONS) for group in groups):
        if time.perf_counter() > deadline:
            raise TimeoutError("the groups do not settle")
        await asyncio.sleep(_LOOK_S)


async def find_coordinators(server: Server) -> None:
    """Have __consumer_offsets created and all its partitions loaded."""
    connection = Connection(server.port)
    names = tuple(f"group-{each}" for each in range(GROUPS))
    request = FindCoordinatorRequest(coordinator_keys=names)
    answer = await connection.ask(request, 4, FindCoordinatorResponse)
    while any(each.error_code is not ErrorCode.NONE for each in answer.coordinators):
        answer = await connection.ask(request, 4, FindCoordinatorResponse)
    listed = await connection.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    while listed.error_code is not ErrorCode.NONE:
        await asyncio.sleep(_LOOK_S)
        listed = await connection.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    connection.close()
