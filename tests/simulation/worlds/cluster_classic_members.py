"""Members of a classic group in a simulated cluster: join, sync, heartbeat, rejoin.

Note: a generation that was joined and never synced has no owners. Its number may be used again
after the coordinator has moved, for other members.
"""

from __future__ import annotations

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.worlds.cluster_clients import GROUPS, TOPIC
from tests.simulation.worlds.cluster_members import HEARTBEAT_MS, Member

# Any other than the consumer protocol type: then metadata is opaque to the broker.
_TYPE: Final = "simulated"
_PROTOCOL: Final = "deal"
_SESSION_MS: Final = 4_000
_REBALANCE_MS: Final = 1_000
_GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class ClassicMember(Member):
    """See the module docstring."""

    group = "classic members"

    def turn(self) -> None:
        chance = self._rng.random()
        if chance < 0.05 and not self.is_leaving:
            # It crashes, and another one replaces it.
            self._member_id, self._epoch, self._owned = "", 0, ()
        if not self._epoch:
            self._with_coordinator(self.group, GROUPS, self._join)
        elif chance < 0.4 and self._owned and not self.is_leaving:
            self._with_coordinator(self.group, GROUPS, self._commit)
        else:
            self._with_coordinator(self.group, GROUPS, self._beat)

    def _refused(self, code: ErrorCode) -> None:
        if code in _GONE:
            self._member_id = ""
        if code in (*_GONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._epoch, self._owned = 0, ()
        super()._refused(code)

    def _join(self, coordinator: NodeId) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            protocol_type=_TYPE,
            protocols=(JoinGroupRequestProtocol(name=_PROTOCOL),),
        )

        def joined(response: Message) -> None:
            assert isinstance(response, JoinGroupResponse)
            if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            if response.error_code:
                self._refused(response.error_code)
                return
            self._member_id = response.member_id
            self._sync(coordinator, response)

        self._ask(coordinator, request, joined)

    def _sync(self, coordinator: NodeId, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type=_TYPE,
            protocol_name=_PROTOCOL,
            assignments=self._dealt(joined) if joined.leader == self._member_id else (),
        )

        def synced(response: Message) -> None:
            assert isinstance(response, SyncGroupResponse)
            if response.error_code:
                self._refused(response.error_code)
                return
            self._epoch, self._in_doubt = joined.generation_id, False
            self._own(tuple(response.assignment))
            self._rest(HEARTBEAT_MS)

        self._ask(coordinator, request, synced)

    def _dealt(self, joined: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        """As the leader: a byte for each partition, assigned in turn."""
        count = len(self._lab.store.image.topics[TOPIC].partitions)
        members = [each.member_id for each in joined.members]
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=bytes(range(place, count, len(members)))
            )
            for place, member_id in enumerate(members)
        )

    def _beat(self, coordinator: NodeId) -> None:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self._epoch, member_id=self._member_id
        )

        def beaten(response: Message) -> None:
            assert isinstance(response, HeartbeatResponse)
            if response.error_code:
                self._refused(response.error_code)
                return
            self._in_doubt = False
            self._rest(HEARTBEAT_MS)

        self._ask(coordinator, request, beaten)
