"""One member of a classic group, and how long it may stay silent.

A member that waits for an answer to JoinGroup or SyncGroup cannot send heartbeats, so silence is
not held against it (GR-9). The exception is one that joined for the first time: it may be the
forgotten first try of a client that has since joined again under another id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.ports import Random
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.records.classic_group_records import MemberMetadata
from headwater.coordinator.runtime.coordinator_effects import Asked, TimerKey
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
    """As the member prefers them. Of a member from the log only the chosen one is known."""
    assignment: bytes = b""
    is_new: bool = False
    """Until its first join is answered."""
    owes_sync: bool = False
    """It has been told of a generation and has not asked for its assignment yet."""
    joining: Asked | None = None
    """Its JoinGroup that waits."""
    syncing: Asked | None = None
    """Its SyncGroup that waits."""
    patience_ms: int = 0
    """How long it is waited for, from when it was heard of last."""
    deadline_ms: int = 0
    timer_ms: int | None = None
    """When the timer that was asked for will fire; it may be before the deadline."""

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
        """The first of its protocols that is a candidate."""
        names = dict.fromkeys(candidates)
        return next((offered.name for offered in self.protocols if offered.name in names), None)

    def take_terms(self, request: JoinGroupRequest) -> None:
        """Each join may bring other timeouts and protocols."""
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = request.protocols

    def take_record(self, record: MemberMetadata, protocol: str | None) -> None:
        """What the record says is so. Of the protocols it says one, which need not be news."""
        self.rebalance_timeout_ms = _rebalance_timeout_ms(record)
        self.session_timeout_ms = record.session_timeout
        self.assignment = record.assignment
        if self.metadata(protocol) != record.subscription:
            self.protocols = _recorded_protocols(record, protocol)


def joining_member(member_id: str, asked: Asked, request: JoinGroupRequest) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
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
    """Records before version 1 do not have it; the session's served for both (GR-4)."""
    if record.rebalance_timeout == -1:
        return record.session_timeout
    return record.rebalance_timeout


def _recorded_protocols(
    record: MemberMetadata, protocol: str | None
) -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol(name=protocol or "", metadata=record.subscription),)


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return (GROUP_TIMER, group_id, SESSION_TIMER, member_id)


def fresh_member_id(asked: Asked, group_instance_id: str | None, rng: Random) -> str:
    """The instance's name or the client's, and a UUID of version 4 (GR-2)."""
    raw = bytearray(rng.bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    uuid = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return f"{asked.client_id if group_instance_id is None else group_instance_id}-{uuid}"
