"""Group members that only join, sync and send heartbeats.

They use the codecs of `headwater.protocol` over asyncio streams, one connection each. Five hundred
librdkafka consumers would have about two thousand threads and dominate the measurement.
"""

import asyncio
from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol, TypeVar

from bench.raw_requests import frame_of
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, response_class
from headwater.protocol.headers import response_body_position
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headwater.protocol.older_versions import Message

R = TypeVar("R", bound=Message)

HEARTBEAT_S: Final = 0.2
"""Heartbeat interval. Real clients wait for three seconds, which would dominate the measurement."""

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
CONSUMER_HEARTBEAT_VERSION: Final = 1
_TIMEOUT_MS: Final = 60_000
_SIZE: Final = Struct(">i")


class Connection:
    """Connection with one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Message, version: int, shape: type[R]) -> R:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(frame_of(request, version))
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        frame = memoryview(await reader.readexactly(size))
        position = response_body_position(APIS[request.api], version, frame)
        answer = read(response_class(request.api), version, frame[position:])
        assert isinstance(answer, shape)
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class GroupMember(Protocol):
    """Member of either protocol, for as long as its task runs."""

    @property
    def controller_access(self) -> tuple[int, int]:
        """Generation or member epoch, and the number of assigned partitions."""
        ...

    async def live(self) -> None: ...

    async def leave(self) -> None:
        """Leave the group after `live` has ended; the last pending response is ignored."""
        ...

    def close(self) -> None: ...


class ClassicMember:
    """Classic member; a group leader assigns partitions one by one, as opaque bytes."""

    def __init__(self, port: int, group_id: str, partitions: int) -> None:
        self._port = port
        self._connection = Connection(port)
        self._group_id = group_id
        self._partitions = partitions
        self.member_id = ""
        self.controller_access = (0, 0)

    async def live(self) -> None:
        while True:
            self.controller_access = (0, 0)
            generation, share = await self._join_and_sync()
            self.controller_access = (generation, share)
            while await self._is_welcome(generation):
                await asyncio.sleep(HEARTBEAT_S)

    async def leave(self) -> None:
        who = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self._group_id, members=(who,))
        self.close()
        self._connection = Connection(self._port)
        await self._connection.ask(request, LEAVE_VERSION, LeaveGroupResponse)

    def close(self) -> None:
        self._connection.close()

    async def _join_and_sync(self) -> tuple[int, int]:
        while True:
            joined = await self._connection.ask(self._joining(), JOIN_VERSION, JoinGroupResponse)
            if joined.error_code is ErrorCode.NONE:
                self.member_id = joined.member_id
                synced = await self._sync(joined)
                if synced.error_code is ErrorCode.NONE:
                    return joined.generation_id, len(synced.assignment)
            elif joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
            elif joined.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""

    def _joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=_TIMEOUT_MS,
            rebalance_timeout_ms=_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="bench",
            protocols=(JoinGroupRequestProtocol(name="one by one", metadata=b""),),
        )

    async def _sync(self, joined: JoinGroupResponse) -> SyncGroupResponse:
        ids = [each.member_id for each in joined.members]
        shares = [bytes(range(first, self._partitions, len(ids))) for first in range(len(ids))]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="bench",
            protocol_name="one by one",
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=share)
                for member_id, share in zip(ids, shares, strict=True)
            ),
        )
        return await self._connection.ask(request, SYNC_VERSION, SyncGroupResponse)

    async def _is_welcome(self, generation: int) -> bool:
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=generation, member_id=self.member_id
        )
        answer = await self._connection.ask(request, HEARTBEAT_VERSION, HeartbeatResponse)
        return answer.error_code is ErrorCode.NONE


class ConsumerMember:
    """Member of the consumer protocol (KIP-848), which accepts and acknowledges its assignment."""

    def __init__(self, port: int, group_id: str, topic: str, number: int) -> None:
        self._port = port
        self._connection = Connection(port)
        self._group_id = group_id
        self._topic = topic
        self.member_id = f"{group_id}-{number}"
        self.controller_access = (0, 0)

    async def live(self) -> None:
        owned: tuple[TopicPartitions, ...] = ()
        told: tuple[TopicPartitions, ...] | None = ()
        epoch = 0
        while True:
            answer = await self._connection.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    rebalance_timeout_ms=_TIMEOUT_MS if epoch == 0 else -1,
                    subscribed_topic_names=(self._topic,) if epoch == 0 else None,
                    topic_partitions=told,
                ),
                CONSUMER_HEARTBEAT_VERSION,
                ConsumerGroupHeartbeatResponse,
            )
            assert answer.error_code is ErrorCode.NONE, answer
            epoch, told = answer.member_epoch, None
            if answer.assignment is not None:
                owned = told = answer.assignment.topic_partitions
            self.controller_access = (epoch, sum(len(each.partitions) for each in owned))
            if told is None:
                await asyncio.sleep(HEARTBEAT_S)

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=-1
        )
        self.close()
        self._connection = Connection(self._port)
        version = CONSUMER_HEARTBEAT_VERSION
        await self._connection.ask(request, version, ConsumerGroupHeartbeatResponse)

    def close(self) -> None:
        self._connection.close()


def are_settled(members: Sequence[GroupMember], partitions: int) -> bool:
    """Return whether all members have the same generation and together all partitions."""
    generations = {member.controller_access[0] for member in members}
    shares = sum(member.controller_access[1] for member in members)
    return len(generations) == 1 and 0 not in generations and shares == partitions
