"""Where the leader's log begins and ends, asked by a follower that is beside it (EP-7).

Two ListOffsets, one after the other, since one may not name a partition twice. What a reader would
get wrong: a lookup that fails is told to nobody. The follower waits anyway, and its next fetch
gets the same refusal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.older_versions import Message
from headwater.replication.follower_state import FollowerState

if TYPE_CHECKING:
    from headwater.replication.replica_fetcher import ReplicaFetcherServices

_log = logging.getLogger(__name__)

_LATEST: Final = -1
_EARLIEST: Final = -2


def look_up_range(
    tools: ReplicaFetcherServices,
    leader: NodeId,
    following: FollowerState,
    *,
    then: Callable[[], None],
) -> None:
    """Ask for the end, then for the beginning, and put the follower's log where there is something.

    `then` is called when that is done.
    """

    def found_end(end_offset: int) -> None:
        _ask(tools, leader, following, _EARLIEST, lambda start: found_both(start, end_offset))

    def found_both(start_offset: int, end_offset: int) -> None:
        hosted = following.hosted
        if not hosted.is_followed_here or hosted.leader_epoch != following.leader_epoch:
            return
        try:
            following.place_between(start_offset, end_offset, tools.clock.now_ms())
        except HeadwaterError as error:
            _log.warning("%s cannot go where its leader's log is: %s", hosted.name, error)
        else:
            then()

    _ask(tools, leader, following, _LATEST, found_end)


def _ask(
    tools: ReplicaFetcherServices,
    leader: NodeId,
    following: FollowerState,
    timestamp: int,
    then: Callable[[int], None],
) -> None:
    name = following.hosted.name
    partition = ListOffsetsPartition(
        partition_index=name.partition,
        current_leader_epoch=following.leader_epoch,
        timestamp=timestamp,
    )

    def answered(response: Message) -> None:
        assert isinstance(response, ListOffsetsResponse)
        (topic,) = response.topics
        (found,) = topic.partitions
        if not found.error_code:
            then(found.offset)

    tools.inter_broker_client.ask(
        leader,
        ListOffsetsRequest(
            replica_id=tools.node_id,
            topics=(ListOffsetsTopic(name=name.topic, partitions=(partition,)),),
        ),
        purpose=Purpose.REPLICATION,
        timeout_ms=tools.settings.timeout_ms,
        then=answered,
        otherwise=lambda error: _log.info("no range of %s: %s", name, error),
    )
