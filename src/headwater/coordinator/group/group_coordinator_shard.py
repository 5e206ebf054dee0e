"""The groups and offsets of one partition of `__consumer_offsets`.

Requests, timers and records come here and are passed to whom they concern; what concerns groups
and offsets alike is decided here: deletion, expiry, and which type a group is of. A request for
many groups has only groups of this shard; whoever splits it puts the answers together again.

What a reader would get wrong: a group that is empty may become one of the other type, with its
offsets, by a mere join. Its old records are taken back in the batch that has the first new ones.
A classic group of consumers need not even be empty for that (see `group_upgrade`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.group import offset_commit, offset_fetch
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_request_checks import (
    check_request,
    creates_group,
    reject_without_group,
)
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.group.committed_offsets import CommittedOffsets
from headwater.coordinator.group.consumer.consumer_group_member import JOINING_EPOCH
from headwater.coordinator.group.consumer.group_upgrade import may_upgrade, upgrade
from headwater.coordinator.group.consumer.mixed_consumer_group import MixedConsumerGroup
from headwater.coordinator.group.describe_groups import (
    describe_consumer_groups,
    describe_groups,
    list_groups,
)
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.group.group_metadata_manager import (
    GroupFactory,
    GroupMetadataManager,
    Machine,
)
from headwater.coordinator.group.offset_commit import CommitSettings
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.records.offset_records import OffsetCommitRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Asked,
    Effect,
    Loaded,
    Reply,
    SetTimer,
    StateRecord,
    TimerFired,
    TimerKey,
)
from headwater.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from headwater.protocol.messages.describe_groups import DescribeGroupsRequest
from headwater.protocol.messages.heartbeat import HeartbeatRequest
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest
from headwater.protocol.messages.list_groups import ListGroupsRequest
from headwater.protocol.messages.offset_commit import OffsetCommitRequest
from headwater.protocol.messages.offset_delete import OffsetDeleteRequest
from headwater.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest
from headwater.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_EXPIRY: Final[TimerKey] = ("expiry",)
_TOMBSTONES_PER_BATCH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """What the broker's settings say of committed offsets."""

    metadata_max_bytes: int = 4_096
    retention_ms: int = 604_800_000
    check_interval_ms: int = 600_000


class GroupCoordinatorShard:
    """See the module. A `CoordinatorShard` that is told of deleted topics."""

    def __init__(self, making: GroupFactory, settings: OffsetSettings) -> None:
        self._image = making.image
        self._limits = making.classic
        self._settings = settings
        self._commits = CommitSettings(settings.metadata_max_bytes)
        self.offsets = CommittedOffsets()
        self.groups = GroupMetadataManager(making, self.offsets)

    def decide(self, event: Asked | TimerFired | Loaded | TopicsDeleted) -> list[Effect]:
        match event:
            case Asked():
                return self._on_request(event)
            case TimerFired():
                return self._on_timer(event)
            case Loaded():
                return self._on_loaded(event.now_ms)
            case TopicsDeleted():
                topics = frozenset(event.topics)
                return list(_batches(self.offsets.topic_tombstones(topics)))

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:
        match record:
            case OffsetCommitRecord():
                self.offsets.replay(record, offset=offset, producer_id=producer_id)
            case GroupMetadataRecord():
                self.groups.replay_classic(record)
            case _:
                assert isinstance(record, ConsumerGroupRecord), f"no record of a group: {record}"
                self.groups.replay_consumer(record)

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _on_request(self, asked: Asked) -> list[Effect]:
        request = asked.request
        match request:
            case JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest() | LeaveGroupRequest():
                return self._on_classic(asked, request)
            case ConsumerGroupHeartbeatRequest():
                return self._on_consumer(asked, request)
            case OffsetCommitRequest():
                group = self.groups.find(request.group_id)
                return offset_commit.commit(asked, request, group, self._commits)
            case TxnOffsetCommitRequest():
                group = self.groups.find(request.group_id)
                return offset_commit.commit_in_transaction(asked, request, group, self._commits)
            case OffsetFetchRequest():
                return self._on_offset_fetch(asked, request)
            case OffsetDeleteRequest():
                group = self.groups.find(request.group_id)
                return offset_fetch.delete(asked, request, group, self.offsets)
            case DeleteGroupsRequest():
                return self._on_delete_groups(asked, request)
            case ListGroupsRequest():
                return [Reply(asked.caller, list_groups(request, self.groups))]
            case DescribeGroupsRequest():
                response = describe_groups(request, self.groups, asked.version)
                return [Reply(asked.caller, response)]
            case ConsumerGroupDescribeRequest():
                described = describe_consumer_groups(request, self.groups, self._image())
                return [Reply(asked.caller, described)]
            case _:
                raise AssertionError(f"no request for groups: {request}")

    # Groups.

    def _on_classic(self, asked: Asked, request: ClassicRequest) -> list[Effect]:
        refusal = check_request(asked, request, self._limits)
        if refusal:
            return refusal
        machine = self.groups.machine(request.group_id)
        if isinstance(machine, ClassicGroup):
            return machine.decide(asked)
        if machine is not None and not machine.is_empty:
            return machine.decide(asked)
        if not creates_group(request):
            return reject_without_group(asked, request)
        made = self.groups.new_classic(request.group_id)
        return self._begun(made, made.decide(asked), in_place_of=machine)

    def _on_consumer(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
        machine = self.groups.machine(request.group_id)
        if isinstance(machine, MixedConsumerGroup):
            return machine.decide(asked)
        made = self.groups.new_consumer(request.group_id)
        if machine is not None and not machine.is_empty:
            return self._upgraded(asked, machine, made) or _refuse_upgrade(asked, request)
        return self._begun(made, made.decide(asked), in_place_of=machine)

    def _upgraded(
        self, asked: Asked, group: ClassicGroup, sketch: MixedConsumerGroup
    ) -> list[Effect] | None:
        """What lets a new kind of member into a classic group that has members (NG-10)."""
        request = asked.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if request.member_epoch != JOINING_EPOCH or not may_upgrade(group, sketch.settings):
            return None
        return upgrade(group, sketch, asked, self._image())

    def _begun(
        self, made: Machine, effects: list[Effect], *, in_place_of: Machine | None
    ) -> list[Effect]:
        """Keep a new group if it has something to write; take back what it replaces."""
        first = next((each for each in effects if isinstance(each, Append)), None)
        if first is None:
            return effects
        self.groups.keep(made)
        if in_place_of is None:
            return effects
        both = replace(first, records=(*in_place_of.tombstones(), *first.records))
        return [both if each is first else each for each in effects]

    def _on_delete_groups(self, asked: Asked, request: DeleteGroupsRequest) -> list[Effect]:
        records: list[StateRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in dict.fromkeys(request.groups_names):
            group = self.groups.find(group_id)
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
            if group is not None and error is None:
                records += [*self.offsets.tombstones(group_id), *group.tombstones()]
            result = DeletableGroupResult(group_id=group_id, error_code=error or ErrorCode.NONE)
            results.append(result)
        response = DeleteGroupsResponse(results=tuple(results))
        return [*_batches(records), Reply(asked.caller, response)]

    # Offsets.

    def _on_offset_fetch(self, asked: Asked, request: OffsetFetchRequest) -> list[Effect]:
        response = OffsetFetchResponse(
            groups=tuple(
                offset_fetch.fetch_group(
                    each,
                    self.groups.find(each.group_id),
                    self.offsets,
                    require_stable=request.require_stable,
                    version=asked.version,
                )
                for each in request.groups
            )
        )
        return [Reply(asked.caller, response)]

    # Time.

    def _on_loaded(self, now_ms: int) -> list[Effect]:
        effects = [self._next_expiry(now_ms)]
        for machine in self.groups.machines():
            effects += machine.loaded(now_ms)
        return effects

    def _on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case (kind, str(group_id), *_) if kind == GROUP_TIMER:
                machine = self.groups.machine(group_id)
                # Timers outlive their groups.
                return machine.on_timer(timer) if machine is not None else []
            case _:
                assert timer.key == _EXPIRY, f"nobody's timer: {timer.key}"
                return [self._next_expiry(timer.now_ms), *self._expired(timer.now_ms)]

    def _next_expiry(self, now_ms: int) -> Effect:
        return SetTimer(_EXPIRY, now_ms + self._settings.check_interval_ms)

    def _expired(self, now_ms: int) -> Iterator[Effect]:
        """Old offsets go, and groups with them that have nothing else (OE-1, GR-18)."""
        retention_ms = self._settings.retention_ms
        records: list[StateRecord] = []
        for group in self.groups:
            expiry = self.offsets.expired(group, now_ms=now_ms, retention_ms=retention_ms)
            records += expiry.records
            if expiry.is_all and group.is_empty:
                records += group.tombstones()
        return _batches(records)


def _refuse_upgrade(asked: Asked, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
    response = ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"group {request.group_id!r} is a classic group with members",
    )
    return [Reply(asked.caller, response)]


def _batches(records: Sequence[StateRecord]) -> Iterator[Effect]:
    """Tombstones need not be written all at once, and a batch has a limit."""
    rest = iter(records)
    while batch := tuple(islice(rest, _TOMBSTONES_PER_BATCH)):
        yield Append(batch)
