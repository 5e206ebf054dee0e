"""Group settings of brokers and of groups, as seen by members."""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.simulation.labs.broker_lab import BrokerLab

MINUTE_MS: Final = 60_000
GROUP: Final = 32


def made(settings: dict[str, str]) -> BrokerLab:
    lab = BrokerLab({"offsets.topic.num.partitions": "1", **settings})
    lab.ask(FindCoordinatorRequest(coordinator_keys=("readers",)), FindCoordinatorResponse)
    lab.create("orders")
    return lab


def joining(member_id: str, assignor: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id=member_id,
        rebalance_timeout_ms=MINUTE_MS,
        subscribed_topic_names=("orders",),
        server_assignor=assignor,
        topic_partitions=(),
    )


def join(
    lab: BrokerLab, member_id: str = "a", assignor: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    return lab.ask(joining(member_id, assignor), ConsumerGroupHeartbeatResponse)


def beat(lab: BrokerLab, epoch: int) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="a", member_epoch=epoch)
    return lab.ask(request, ConsumerGroupHeartbeatResponse)


def set_own(lab: BrokerLab, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="readers", configs=(config,))
    answer = lab.ask(
        IncrementalAlterConfigsRequest(resources=(resource,)), IncrementalAlterConfigsResponse
    )
    assert answer.responses[0].error_code is ErrorCode.NONE, answer


def test_heartbeat_interval_is_the_brokers_until_the_group_sets_its_own() -> None:
    lab = made({"group.consumer.heartbeat.interval.ms": "6000"})
    assert join(lab).heartbeat_interval_ms == 6_000
    set_own(lab, "consumer.heartbeat.interval.ms", "9000")
    assert beat(lab, 1).heartbeat_interval_ms == 9_000


def test_silent_member_is_removed_after_the_session_timeout_of_broker_or_group() -> None:
    """NG-6. A running session keeps its timeout; the next heartbeat starts another."""
    lab = made({"group.consumer.session.timeout.ms": "46000"})
    join(lab)
    lab.pass_time(45_999)
    assert beat(lab, 1).error_code is ErrorCode.NONE
    set_own(lab, "consumer.session.timeout.ms", "60000")
    assert beat(lab, 1).error_code is ErrorCode.NONE
    lab.pass_time(59_999)
    assert beat(lab, 1).error_code is ErrorCode.NONE
    lab.pass_time(60_001)
    assert beat(lab, 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_consumer_group_size_is_limited() -> None:
    lab = made({"group.consumer.max.size": "1"})
    assert join(lab, "a").error_code is ErrorCode.NONE
    assert join(lab, "b").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_assignors_are_the_brokers_and_the_first_is_the_default() -> None:
    lab = made(
        {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"}
    )
    assert join(lab, "a", "uniform").error_code is ErrorCode.UNSUPPORTED_ASSIGNOR
    join(lab, "a")
    request = ConsumerGroupDescribeRequest(group_ids=("readers",))
    answer = lab.ask(request, ConsumerGroupDescribeResponse)
    assert answer.groups[0].assignor_name == "range"


def test_consumer_protocol_can_be_disabled() -> None:
    lab = made({"group.coordinator.rebalance.protocols": "classic"})
    assert join(lab).error_code is ErrorCode.UNSUPPORTED_VERSION
    request = ConsumerGroupDescribeRequest(group_ids=("readers",))
    answer = lab.ask(request, ConsumerGroupDescribeResponse)
    assert [each.error_code for each in answer.groups] == [ErrorCode.UNSUPPORTED_VERSION]


def test_expired_offsets_are_checked_at_the_configured_interval() -> None:
    """OE-1."""
    lab = made({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "90000"})
    place = OffsetCommitRequestPartition(committed_offset=0)
    topic = OffsetCommitRequestTopic(name="orders", partitions=(place,))
    lab.ask(OffsetCommitRequest(group_id="readers", topics=(topic,)), OffsetCommitResponse)

    def is_there() -> bool:
        return bool(lab.ask(ListGroupsRequest(), ListGroupsResponse).groups)

    lab.pass_time(89_000)
    assert is_there()
    lab.pass_time(2_000)
    assert not is_there()
