"""Decisions about registrations, fencing and log directories."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from headwater.controller.quorum.cluster_control import (
    HeldPartitions,
    assign_replicas_to_dirs,
    begin_controlled_shutdown,
    fence_brokers,
    has_movable_leaderships,
    register_broker,
    take_directories_offline,
    unfence_broker,
    unregister_broker,
)
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    MetadataChange,
    TopicCreated,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    NO_LEADER,
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    PartitionRegistration,
    SupportedFeature,
    TopicImage,
)
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from headwater.protocol.messages.unregister_broker import UnregisterBrokerRequest

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TOPIC_ID = TopicId(b"t" * 16)
NAME = TopicPartition("orders", 0)
HELD = HeldPartitions([NAME], lambda _: False)
FINALIZED = {"metadata.version": 27, "group.version": 1}


def directory(number: int) -> TopicId:
    return TopicId(bytes([number]) * 16)


def broker(node_id: NodeId, *, is_fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        node_id=node_id,
        epoch=10 * node_id,
        is_fenced=is_fenced,
        incarnation_id=TopicId(bytes([100 + node_id]) * 16),
        log_dirs=(directory(node_id),),
    )


def image_of(
    *brokers: BrokerRegistration,
    isr: Sequence[NodeId] = (ONE, TWO),
    leader: NodeId = ONE,
    directories: tuple[TopicId, ...] = (),
) -> ClusterImage:
    partition = PartitionRegistration(
        replicas=(ONE, TWO), isr=tuple(isr), leader=leader, directories=directories
    )
    topic = TopicImage(name="orders", topic_id=TOPIC_ID, partitions=(partition,))
    changes: list[MetadataChange] = [TopicCreated(topic)]
    for each in brokers:
        changes.append(BrokerRegistered(each))
        if not each.is_fenced:
            changes.append(BrokerAdmitted(each.node_id, each.epoch))
    return apply(ClusterImage(cluster_id="a-cluster"), changes, FIRST_VERSION)


def after(image: ClusterImage, changes: Sequence[MetadataChange]) -> ClusterImage:
    return apply(image, changes, FIRST_VERSION)


def partition_of(image: ClusterImage) -> PartitionRegistration:
    return image.topics["orders"].partitions[0]


REQUEST = BrokerRegistrationRequest(
    broker_id=ONE,
    cluster_id="a-cluster",
    incarnation_id=directory(77),
    listeners=(Listener(name="CLIENTS", host="one", port=9092, security_protocol=1),),
    features=(
        Feature(name="metadata.version", min_supported_version=7, max_supported_version=27),
        Feature(name="group.version", min_supported_version=0, max_supported_version=1),
    ),
    rack="r1",
    log_dirs=(directory(1),),
)


def register(
    image: ClusterImage, request: BrokerRegistrationRequest, *, has_valid_session: bool = False
) -> tuple[BrokerRegistration | ApiError, ClusterImage]:
    result = register_broker(
        image,
        request,
        broker_epoch=500,
        finalized=FINALIZED,
        has_valid_session=has_valid_session,
        held=HELD,
    )
    return result.answer, after(image, result.changes)


def test_a_new_broker_is_registered_and_fenced() -> None:
    outcome, image = register(image_of(broker(TWO), isr=[TWO], leader=TWO), REQUEST)
    expected = BrokerRegistration(
        node_id=ONE,
        epoch=500,
        rack="r1",
        endpoints=(
            BrokerEndpoint(listener="CLIENTS", host="one", port=9092, security_protocol="SSL"),
        ),
        is_fenced=True,
        incarnation_id=directory(77),
        features=(
            SupportedFeature("metadata.version", 7, 27),
            SupportedFeature("group.version", 0, 1),
        ),
        log_dirs=(directory(1),),
    )
    assert outcome == expected
    assert image.fenced_brokers == {ONE: expected}
    assert ONE not in image.brokers
    assert partition_of(image).isr == (TWO,)


def test_a_new_incarnation_leaves_every_isr_that_has_other_members() -> None:
    """Even if its old session ended unnoticed: it may have lost records."""
    _, image = register(image_of(broker(ONE), broker(TWO)), REQUEST)
    partition = partition_of(image)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (TWO, (TWO,), 1)
    # The last member stays, without being leader until it is unfenced.
    alone = image_of(broker(ONE), broker(TWO, is_fenced=True), isr=[ONE])
    _, image = register(alone, REQUEST)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (ONE,))
    image = after(image, unfence_broker(image, ONE, HELD).changes)
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (ONE, 2)
    assert image.admitted_epochs[ONE] == 500


def test_the_same_incarnation_keeps_its_epoch_and_its_state() -> None:
    request = replace(REQUEST, incarnation_id=broker(ONE).incarnation_id, rack="r2")
    outcome, image = register(image_of(broker(ONE), broker(TWO)), request, has_valid_session=True)
    assert isinstance(outcome, BrokerRegistration)
    assert (outcome.epoch, outcome.is_fenced, outcome.rack) == (10, False, "r2")
    assert partition_of(image).leader == ONE


@pytest.mark.parametrize(
    ("request_", "has_valid_session", "error"),
    [
        (replace(REQUEST, cluster_id="other"), False, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (REQUEST, True, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (replace(REQUEST, log_dirs=()), False, ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(NO_TOPIC_ID,)), False, ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(directory(1),) * 2), False, ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(directory(2),)), False, ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, features=REQUEST.features[:1]), False, ErrorCode.UNSUPPORTED_VERSION),
        (replace(REQUEST, features=REQUEST.features[1:]), False, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_registrations_are_checked(
    request_: BrokerRegistrationRequest, has_valid_session: bool, error: ErrorCode
) -> None:
    before = image_of(broker(ONE), broker(TWO))
    outcome, image = register(before, request_, has_valid_session=has_valid_session)
    assert isinstance(outcome, ApiError)
    assert outcome.code is error
    assert image == before


def test_brokers_that_are_fenced_together_do_not_elect_each_other() -> None:
    image = image_of(broker(ONE), broker(TWO))
    image = after(image, fence_brokers(image, [ONE, TWO], HELD).changes)
    assert list(image.fenced_brokers) == [ONE, TWO]
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (ONE, TWO))
    image = after(image, unfence_broker(image, TWO, HELD).changes)
    assert (partition_of(image).leader, partition_of(image).isr) == (TWO, (TWO,))


def test_a_fenced_broker_loses_its_leaderships() -> None:
    image = image_of(broker(ONE), broker(TWO))
    assert has_movable_leaderships(image, ONE, [NAME])
    assert not has_movable_leaderships(image, TWO, [NAME])
    image = after(image, fence_brokers(image, [ONE], HELD).changes)
    assert (partition_of(image).leader, partition_of(image).isr) == (TWO, (TWO,))
    assert fence_brokers(image, [ONE], HELD).changes == []
    assert unfence_broker(image, TWO, HELD).changes == ()


def test_controlled_shutdown_moves_leaders_that_can_be_moved() -> None:
    image = image_of(broker(ONE), broker(TWO))
    changes = begin_controlled_shutdown(image, ONE, HELD).changes
    assert changes[0] == BrokerStopping(ONE)
    image = after(image, changes)
    assert (partition_of(image).leader, partition_of(image).isr) == (TWO, (TWO,))
    alone = image_of(broker(ONE), broker(TWO, is_fenced=True), isr=[ONE])
    assert not has_movable_leaderships(alone, ONE, [NAME])


def test_replicas_in_a_failed_directory_are_offline() -> None:
    two_directories = replace(broker(ONE), log_dirs=(directory(1), directory(9)))
    image = image_of(two_directories, broker(TWO), directories=(directory(9), directory(2)))
    other = take_directories_offline(image, ONE, [directory(1)], HELD)
    assert partition_of(after(image, other.changes)).leader == ONE
    image = after(image, take_directories_offline(image, ONE, [directory(9)], HELD).changes)
    assert image.brokers[ONE].log_dirs == (directory(1),)
    assert (partition_of(image).leader, partition_of(image).isr) == (TWO, (TWO,))
    assert take_directories_offline(image, ONE, [directory(9)], HELD).changes == ()


def test_only_a_stopped_broker_is_unregistered() -> None:
    image = image_of(broker(ONE, is_fenced=True), broker(TWO))
    result = unregister_broker(image, UnregisterBrokerRequest(broker_id=ONE))
    assert (result.answer, result.changes) == (NO_ERROR, [BrokerGone(ONE)])
    assert after(image, result.changes).registration(ONE) is None
    alive = unregister_broker(image, UnregisterBrokerRequest(broker_id=TWO))
    assert alive.answer.code is ErrorCode.INVALID_REQUEST
    unknown = unregister_broker(image, UnregisterBrokerRequest(broker_id=THREE))
    assert unknown.answer.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert not alive.changes
    assert not unknown.changes


def assignment(
    epoch: int, directory_id: TopicId, topic_id: TopicId = TOPIC_ID, number: int = 0
) -> AssignReplicasToDirsRequest:
    data = TopicData(topic_id=topic_id, partitions=(PartitionData(partition_index=number),))
    return AssignReplicasToDirsRequest(
        broker_id=ONE,
        broker_epoch=epoch,
        directories=(DirectoryData(id=directory_id, topics=(data,)),),
    )


def test_a_broker_assigns_its_replicas_to_directories() -> None:
    image = image_of(broker(ONE), broker(TWO))
    result = assign_replicas_to_dirs(image, assignment(10, directory(1)), HELD.may_be_unclean)
    image = after(image, result.changes)
    assert partition_of(image).directories == (directory(1), NO_TOPIC_ID)
    assert partition_of(image).partition_epoch == 1
    again = assign_replicas_to_dirs(image, assignment(10, directory(1)), HELD.may_be_unclean)
    assert not again.changes
    # A directory that is not online: the replica is not either.
    moved = assign_replicas_to_dirs(image, assignment(10, directory(8)), HELD.may_be_unclean)
    partition = partition_of(after(image, moved.changes))
    assert (partition.leader, partition.isr) == (TWO, (TWO,))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (assignment(10, directory(1), directory(5)), ErrorCode.UNKNOWN_TOPIC_ID),
        (assignment(10, directory(1), number=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            replace(assignment(30, directory(1)), broker_id=THREE),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
    ],
)
def test_assignments_of_unknown_replicas_are_refused(
    request_: AssignReplicasToDirsRequest, error: ErrorCode
) -> None:
    image = image_of(broker(ONE), broker(TWO), broker(THREE))
    result = assign_replicas_to_dirs(image, request_, HELD.may_be_unclean)
    assert not result.changes
    assert result.answer.directories[0].topics[0].partitions[0].error_code is error
    stale = assign_replicas_to_dirs(image, replace(request_, broker_epoch=1), HELD.may_be_unclean)
    assert stale.answer.error_code is ErrorCode.STALE_BROKER_EPOCH


def test_an_assignment_leaves_a_topic_alone_whose_removal_is_in_the_log() -> None:
    """A record of the topic after its removal would stop every node that applies the log."""
    image = after(image_of(broker(ONE), broker(TWO)), [TopicDeletionBegun("orders")])
    result = assign_replicas_to_dirs(image, assignment(10, directory(8)), HELD.may_be_unclean)
    assert not result.changes
    (((answer,),),) = (
        tuple(topic.partitions for topic in each.topics) for each in result.answer.directories
    )
    assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_leaderless_partition_gets_a_leader_whose_replica_is_online_again() -> None:
    """The last ISR member has another disk, and reports it when it is unfenced already."""
    image = image_of(
        broker(ONE),
        broker(TWO, is_fenced=True),
        isr=(ONE,),
        leader=NO_LEADER,
        directories=(directory(9), directory(2)),
    )
    result = assign_replicas_to_dirs(image, assignment(10, directory(1)), HELD.may_be_unclean)
    partition = partition_of(after(image, result.changes))
    assert (partition.leader, partition.isr) == (ONE, (ONE,))
