"""One member of a classic group and its session.

A member that waits for a response to JoinGroup or SyncGroup cannot send heartbeats, so its session
does not expire (GR-9). The exception is a member that joined for the first time: it may be an
abandoned try of a client that has joined again under another id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.ports import Random
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.records.classic_group_records import MemberMetadata
from headwater.coordinator.runtime.coordinator_effects import RequestEvent, TimerKey
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

SESSION_TIMER: Final = "session"


@dataclass(slots=True, kw_only=True)
class ClassicGroupMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]
    """In order of preference. For a member from the log only the chosen one is known."""
    assignment: bytes = b""
    is_new: bool = False
    """Until its first join is answered."""
    awaits_sync: bool = False
    """Whether it got a generation and has not sent SyncGroup yet."""
    joining: RequestEvent | None = None
    """Its waiting JoinGroup."""
    syncing: RequestEvent | None = None
    """Its waiting SyncGroup."""
    timeout_ms: int = 0
    """The current session timeout, from its last request on."""
    deadline_ms: int = 0
    timer_ms: int | None = None
    """When its timer will fire, maybe before the deadline."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def may_be_silent(self) -> bool:
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes | None:
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        return None

    def vote(self, candidates: Iterable[str]) -> str | None:
        """Return the first of its protocols that is a candidate."""
        names = dict.fromkeys(candidates)
        return next((offered.name for offered in self.protocols if offered.name in names), None)

    def update(self, request: JoinGroupRequest) -> None:
        """Apply the timeouts and protocols of a join."""
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = request.protocols

    def update_from_record(self, record: MemberMetadata, protocol: str | None) -> None:
        """Apply a record, which contains only the chosen protocol."""
        self.rebalance_timeout_ms = _rebalance_timeout_ms(record)
        self.session_timeout_ms = record.session_timeout
        self.assignment = record.assignment
        if self.metadata(protocol) != record.subscription:
            self.protocols = _recorded_protocols(record, protocol)


def joining_member(
    member_id: str, event: RequestEvent, request: JoinGroupRequest
) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )


def recorded_member(record: MemberMetadata, protocol: str | None) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=record.member_id,
        group_instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(record),
        session_timeout_ms=record.session_timeout,
        protocols=_recorded_protocols(record, protocol),
        assignment=record.assignment,
    )


def _rebalance_timeout_ms(record: MemberMetadata) -> int:
    """Records before version 1 have only a session timeout, which then applies (GR-4)."""
    if record.rebalance_timeout == -1:
        return record.session_timeout
    return record.rebalance_timeout


def _recorded_protocols(
    record: MemberMetadata, protocol: str | None
) -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol(name=protocol or "", metadata=record.subscription),)


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return (GROUP_TIMER, group_id, SESSION_TIMER, member_id)


def new_member_id(event: RequestEvent, group_instance_id: str | None, rng: Random) -> str:
    """Return instance id or client id with a version 4 UUID (GR-2)."""
    raw = bytearray(rng.bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    uuid = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return f"{event.client_id if group_instance_id is None else group_instance_id}-{uuid}"
