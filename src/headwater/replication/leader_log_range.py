"""Look up a leader's log start and end after OFFSET_OUT_OF_RANGE (EP-7).

Sends two ListOffsets requests, one after the other, because a request may name a partition only
once.

Note: a lookup that fails has no callback. The partition's fetch is delayed anyway, and the next
fetch gets OFFSET_OUT_OF_RANGE again.
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
    services: ReplicaFetcherServices,
    leader: NodeId,
    follower: FollowerState,
    *,
    then: Callable[[], None],
) -> None:
    """Look up the leader's range, move the follower's log into it, call `then`."""

    def found_end(end_offset: int) -> None:
        _list_offset(
            services, leader, follower, _EARLIEST, lambda start: found_both(start, end_offset)
        )

    def found_both(start_offset: int, end_offset: int) -> None:
        partition = follower.partition
        if not partition.is_follower or partition.leader_epoch != follower.leader_epoch:
            return
        try:
            follower.handle_out_of_range(start_offset, end_offset, services.clock.now_ms())
        except HeadwaterError as error:
            _log.warning(
                "Cannot move log into the leader's range: partition=%s error=%s",
                partition.name,
                error,
            )
        else:
            then()

    _list_offset(services, leader, follower, _LATEST, found_end)


def _list_offset(
    services: ReplicaFetcherServices,
    leader: NodeId,
    follower: FollowerState,
    timestamp: int,
    then: Callable[[int], None],
) -> None:
    name = follower.partition.name
    partition = ListOffsetsPartition(
        partition_index=name.partition,
        current_leader_epoch=follower.leader_epoch,
        timestamp=timestamp,
    )

    def handle_response(response: Message) -> None:
        assert isinstance(response, ListOffsetsResponse)
        (topic,) = response.topics
        (found,) = topic.partitions
        if not found.error_code:
            then(found.offset)

    services.inter_broker_client.send_request(
        leader,
        ListOffsetsRequest(
            replica_id=services.node_id,
            topics=(ListOffsetsTopic(name=name.topic, partitions=(partition,)),),
        ),
        purpose=Purpose.REPLICATION,
        timeout_ms=services.settings.timeout_ms,
        then=handle_response,
        on_error=lambda error: _log.info(
            "ListOffsets to the leader failed: partition=%s error=%s", name, error
        ),
    )
