"""The groups and offsets of one partition of `__consumer_offsets`.

Dispatches requests, timers and records, and decides what concerns groups and offsets alike:
deletion, expiry, and the type of a group. A request for several groups has only groups of this
shard; the caller splits it and merges the responses.

Note: a join may convert an empty group, with its offsets, to the other type. The tombstones of its
old records are written in the batch with the first new ones. A classic group of consumers need not
even be empty for that (see `group_upgrade`).
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
from headwater.coordinator.group.group_counters import GroupCounters
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.group.group_metadata_manager import (
    GroupFactory,
    GroupMetadataManager,
    Machine,
)
from headwater.coordinator.group.offset_commit import CommitSettings
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupMetadataRecord,
    ConsumerGroupRecord,
)
from headwater.coordinator.records.offset_records import OffsetCommitRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Loaded,
    Reply,
    RequestEvent,
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
    """Broker settings for committed offsets."""

    metadata_max_bytes: int = 4_096
    retention_ms: int = 604_800_000
    check_interval_ms: int = 600_000


class GroupCoordinatorShard:
    """A `CoordinatorShard` with `TopicsDeleted` as additional event."""

    def __init__(
        self,
        factory: GroupFactory,
        settings: OffsetSettings,
        counters: GroupCounters | None = None,
    ) -> None:
        """`counters` are shared by all shards of a broker."""
        self._image = factory.image
        self._limits = factory.classic
        self._settings = settings
        self._commits = CommitSettings(settings.metadata_max_bytes)
        self.offsets = CommittedOffsets()
        self.groups = GroupMetadataManager(factory, self.offsets)
        self._counters = GroupCounters() if counters is None else counters
        self._is_loaded = False

    def decide(self, event: RequestEvent | TimerFired | Loaded | TopicsDeleted) -> list[Effect]:
        match event:
            case RequestEvent():
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
                self._count_classic_rebalance(record)
                self.groups.replay_classic(record)
            case _:
                assert isinstance(record, ConsumerGroupRecord), f"unexpected record: {record}"
                if self._is_loaded and isinstance(record, ConsumerGroupMetadataRecord):
                    # Every new group epoch is a rebalance; the last record is a tombstone.
                    self._counters.consumer_rebalances += record.value is not None
                self.groups.replay_consumer(record)

    def _count_classic_rebalance(self, record: GroupMetadataRecord) -> None:
        """Count a generation that this record completes; none while the log is loaded."""
        machine = self.groups.machine(record.key.group)
        if isinstance(machine, ClassicGroup) and machine.is_completing_rebalance:
            self._counters.classic_rebalances += 1

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _on_request(self, event: RequestEvent) -> list[Effect]:
        request = event.request
        match request:
            case JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest() | LeaveGroupRequest():
                return self._on_classic(event, request)
            case ConsumerGroupHeartbeatRequest():
                return self._on_consumer(event, request)
            case OffsetCommitRequest():
                group = self.groups.find(request.group_id)
                return offset_commit.commit(event, request, group, self._commits)
            case TxnOffsetCommitRequest():
                group = self.groups.find(request.group_id)
                return offset_commit.commit_in_transaction(event, request, group, self._commits)
            case OffsetFetchRequest():
                return self._on_offset_fetch(event, request)
            case OffsetDeleteRequest():
                group = self.groups.find(request.group_id)
                return offset_fetch.delete(event, request, group, self.offsets)
            case DeleteGroupsRequest():
                return self._on_delete_groups(event, request)
            case ListGroupsRequest():
                return [Reply(event.caller, list_groups(request, self.groups))]
            case DescribeGroupsRequest():
                response = describe_groups(request, self.groups, event.version)
                return [Reply(event.caller, response)]
            case ConsumerGroupDescribeRequest():
                described = describe_consumer_groups(request, self.groups, self._image())
                return [Reply(event.caller, described)]
            case _:
                raise AssertionError(f"unexpected request: {request}")

    # Groups.

    def _on_classic(self, event: RequestEvent, request: ClassicRequest) -> list[Effect]:
        error_effects = check_request(event, request, self._limits)
        if error_effects:
            return error_effects
        machine = self.groups.machine(request.group_id)
        if isinstance(machine, ClassicGroup):
            return machine.decide(event)
        if machine is not None and not machine.is_empty:
            return machine.decide(event)
        if not creates_group(request):
            return reject_without_group(event, request)
        new_group = self.groups.new_classic(request.group_id)
        return self._start(new_group, new_group.decide(event), in_place_of=machine)

    def _on_consumer(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
    ) -> list[Effect]:
        machine = self.groups.machine(request.group_id)
        if isinstance(machine, MixedConsumerGroup):
            return machine.decide(event)
        new_group = self.groups.new_consumer(request.group_id)
        if machine is not None and not machine.is_empty:
            return self._upgraded(event, machine, new_group) or _refuse_upgrade(event, request)
        return self._start(new_group, new_group.decide(event), in_place_of=machine)

    def _upgraded(
        self, event: RequestEvent, group: ClassicGroup, sketch: MixedConsumerGroup
    ) -> list[Effect] | None:
        """Convert a classic group with members for a new consumer-protocol member (NG-10)."""
        request = event.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if request.member_epoch != JOINING_EPOCH or not may_upgrade(group, sketch.settings):
            return None
        return upgrade(group, sketch, event, self._image())

    def _start(
        self, new_group: Machine, effects: list[Effect], *, in_place_of: Machine | None
    ) -> list[Effect]:
        """Keep a new group if it writes a record; add tombstones of the former group."""
        first = next((each for each in effects if isinstance(each, Append)), None)
        if first is None:
            return effects
        self.groups.keep(new_group)
        if in_place_of is None:
            return effects
        both = replace(first, records=(*in_place_of.tombstones(), *first.records))
        return [both if each is first else each for each in effects]

    def _on_delete_groups(self, event: RequestEvent, request: DeleteGroupsRequest) -> list[Effect]:
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
        return [*_batches(records), Reply(event.caller, response)]

    # Offsets.

    def _on_offset_fetch(self, event: RequestEvent, request: OffsetFetchRequest) -> list[Effect]:
        response = OffsetFetchResponse(
            groups=tuple(
                offset_fetch.fetch_group(
                    each,
                    self.groups.find(each.group_id),
                    self.offsets,
                    require_stable=request.require_stable,
                    version=event.version,
                )
                for each in request.groups
            )
        )
        return [Reply(event.caller, response)]

    # Time.

    def _on_loaded(self, now_ms: int) -> list[Effect]:
        self._is_loaded = True
        effects = [self._next_expiry(now_ms)]
        for machine in self.groups.machines():
            effects += machine.loaded(now_ms)
        return effects

    def _on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case (kind, str(group_id), *_) if kind == GROUP_TIMER:
                machine = self.groups.machine(group_id)
                # A timer may outlive its group.
                return machine.on_timer(timer) if machine is not None else []
            case _:
                assert timer.key == _EXPIRY, f"unexpected timer: {timer.key}"
                return [self._next_expiry(timer.now_ms), *self._expired(timer.now_ms)]

    def _next_expiry(self, now_ms: int) -> Effect:
        return SetTimer(_EXPIRY, now_ms + self._settings.check_interval_ms)

    def _expired(self, now_ms: int) -> Iterator[Effect]:
        """Expire old offsets, and empty groups that have no others (OE-1, GR-18)."""
        retention_ms = self._settings.retention_ms
        records: list[StateRecord] = []
        for group in self.groups:
            expiry = self.offsets.expired(group, now_ms=now_ms, retention_ms=retention_ms)
            records += expiry.records
            if expiry.is_all and group.is_empty:
                records += group.tombstones()
        return _batches(records)


def _refuse_upgrade(event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
    response = ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"group {request.group_id!r} is a classic group with members",
    )
    return [Reply(event.caller, response)]


def _batches(records: Sequence[StateRecord]) -> Iterator[Effect]:
    """Split tombstones into batches of limited size; they need not be written at once."""
    rest = iter(records)
    while batch := tuple(islice(rest, _TOMBSTONES_PER_BATCH)):
        yield Append(batch)
