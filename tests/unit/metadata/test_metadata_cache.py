"""How a broker applies its controller's requests, and which it rejects."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicId, TopicPartition
from headwater.controller.elect_leaders import led_by
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    FeatureFinalized,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    ReplicasOffline,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
    apply,
)
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata.control_requests import (
    EPOCH_DURING_DELETE,
    FULL,
    INCREMENTAL,
    ReplicaStop,
    all_metadata_states,
    live_brokers,
    metadata_states,
    role_states,
    stop_states,
)
from headwater.metadata.metadata_cache import MetadataCache
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headwater.protocol.messages.stop_replica import StopReplicaRequest
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    AclSet,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from tests.simulation.labs.cluster_lab import CLUSTER_ID, after, broker, cluster_of

ME = NodeId(1)
EPOCH = 101
CONFIGS = ConfigResource(ResourceType.TOPIC, "t")


def topic(name: str = "t", *replicas: Sequence[int], letter: bytes = b"t") -> TopicImage:
    return TopicImage(
        name=name, topic_id=TopicId(letter * 16), partitions=tuple(map(new_partition, replicas))
    )


class Lab:
    """A metadata cache, and a controller's image that requests are built from."""

    def __init__(self, *changes: MetadataChange) -> None:
        brokers = cluster_of(broker(0), broker(1), broker(2))
        self.image = after(brokers, ControllerElected(NodeId(0)), *changes)
        self.changes: list[MetadataChange] = []
        self.trouble: dict[TopicPartition, ErrorCode] = {}
        self.metadata_cache = MetadataCache(
            ClusterImage(cluster_id=CLUSTER_ID),
            self._on_changes,
            node_id=ME,
            log_dir_error=lambda name: self.trouble.get(name, ErrorCode.NONE),
        )
        self.metadata_cache.registered(EPOCH)

    def happens(self, *changes: MetadataChange) -> None:
        self.image = after(self.image, *changes)

    def new_changes(self) -> list[MetadataChange]:
        changes, self.changes = self.changes, []
        return changes

    def full(self, *, epoch: int = 1, broker_epoch: int = EPOCH) -> ErrorCode:
        request = UpdateMetadataRequest(
            controller_epoch=epoch,
            broker_epoch=broker_epoch,
            type=FULL,
            topic_states=all_metadata_states(self.image),
            live_brokers=live_brokers(self.image.brokers),
        )
        return self.metadata_cache.update_metadata(request).error_code

    def metadata(self, *names: TopicPartition, gone: Sequence[TopicImage] = ()) -> ErrorCode:
        request = UpdateMetadataRequest(
            controller_epoch=1,
            broker_epoch=EPOCH,
            type=INCREMENTAL,
            topic_states=metadata_states(self.image, names, gone),
            live_brokers=live_brokers(self.image.brokers),
        )
        return self.metadata_cache.update_metadata(request).error_code

    def roles(
        self, *names: TopicPartition, image: ClusterImage | None = None
    ) -> ErrorCode | list[ErrorCode]:
        request = LeaderAndIsrRequest(
            controller_epoch=1,
            broker_epoch=EPOCH,
            topic_states=role_states(image or self.image, ME, dict.fromkeys(names, False)),
        )
        answer = self.metadata_cache.leader_and_isr(request)
        errors = [each.error_code for one in answer.topics for each in one.partition_errors]
        return answer.error_code or errors

    def stop(self, name: TopicPartition, stop: ReplicaStop) -> ErrorCode | list[ErrorCode]:
        request = StopReplicaRequest(
            controller_epoch=1, broker_epoch=EPOCH, topic_states=stop_states({name: stop})
        )
        answer = self.metadata_cache.stop_replica(request)
        return answer.error_code or [each.error_code for each in answer.partition_errors]

    def _on_changes(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        assert image is self.metadata_cache.image
        self.changes += changes


def partition_of(lab: Lab, number: int = 0) -> PartitionRegistration:
    partition = lab.image.partition("t", number)
    assert partition is not None
    return partition


def name(number: int = 0) -> TopicPartition:
    return TopicPartition("t", number)


def test_the_first_full_update_gives_the_controllers_image() -> None:
    where = BrokerEndpoint(listener="L", host="h", port=9, security_protocol="SASL_SSL")
    lab = Lab(TopicCreated(topic("t", [0, 1], [2, 0])))
    lab.happens(
        BrokerRegistered(
            BrokerRegistration(node_id=NodeId(2), epoch=9, rack="r", endpoints=(where,))
        )
    )
    assert not lab.metadata_cache.has_full_update
    assert lab.full() is ErrorCode.NONE
    assert lab.metadata_cache.has_full_update
    image = lab.metadata_cache.image
    assert image.topics == lab.image.topics
    assert image.controller_id == 0
    assert image.version.controller_epoch == 1
    assert image.brokers[NodeId(2)] == BrokerRegistration(
        node_id=NodeId(2), epoch=NO_EPOCH, rack="r", endpoints=(where,)
    )
    assert image.brokers[ME].epoch == EPOCH
    assert TopicKnown(lab.image.topics["t"]) in lab.new_changes()


def test_a_topic_in_a_later_full_update_was_created_meanwhile() -> None:
    """Its replica is new and cannot be on a log directory that has failed."""
    lab = Lab()
    lab.full()
    lab.happens(TopicCreated(topic("t", [0, 1])))
    lab.new_changes()
    lab.full()
    assert lab.new_changes() == [TopicCreated(lab.image.topics["t"])]


def test_a_repeated_update_changes_nothing() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.full()
    image = lab.metadata_cache.image
    lab.new_changes()
    lab.full()
    lab.metadata(name())
    assert lab.roles(name()) == [ErrorCode.NONE]
    assert lab.new_changes() == []
    assert lab.metadata_cache.image is image


@pytest.mark.parametrize(
    ("epoch", "broker_epoch", "code"),
    [
        (4, EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH),
        (5, EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (4, EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (5, EPOCH + 1, ErrorCode.NONE),
        (6, EPOCH, ErrorCode.NONE),
    ],
)
def test_stale_controller_and_broker_epochs_are_rejected(
    epoch: int, broker_epoch: int, code: ErrorCode
) -> None:
    """FEN-1. A broker epoch above its own belongs to a registration that is being confirmed."""
    lab = Lab()
    assert lab.full(epoch=5) is ErrorCode.NONE
    lab.happens(TopicCreated(topic("t", [1])))
    assert lab.full(epoch=epoch, broker_epoch=broker_epoch) is code
    metadata_cache = lab.metadata_cache
    roles = LeaderAndIsrRequest(controller_epoch=epoch, broker_epoch=broker_epoch)
    assert metadata_cache.leader_and_isr(roles).error_code is code
    stop = StopReplicaRequest(controller_epoch=epoch, broker_epoch=broker_epoch)
    assert metadata_cache.stop_replica(stop).error_code is code
    assert ("t" in metadata_cache.image.topics) == (code is ErrorCode.NONE)


def test_the_store_may_raise_the_controller_epoch_before_a_controller_does() -> None:
    image = ClusterImage(cluster_id=CLUSTER_ID, version=Version(7, 3))
    metadata_cache = MetadataCache(image, lambda _image, _changes: None, node_id=ME)
    old = UpdateMetadataRequest(controller_epoch=6, broker_epoch=0)
    assert metadata_cache.update_metadata(old).error_code is ErrorCode.STALE_CONTROLLER_EPOCH


def test_configs_and_acls_come_from_the_store_from_the_start() -> None:
    """A broker that lost the initial ACLs would describe none and deny everything."""
    pattern = ResourcePattern(ResourceKind.TOPIC, "t")
    rule = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
    changes = (FeatureFinalized("group.version", 1), AclsReplaced(pattern, AclSet((rule,))))
    known = apply(ClusterImage(cluster_id=CLUSTER_ID), changes, Version(1, 1))
    metadata_cache = MetadataCache(known, lambda _image, _changes: None, node_id=ME)
    assert metadata_cache.image.features == known.features
    assert dict(metadata_cache.image.acls) == {pattern: AclSet((rule,))}
    metadata_cache.store_changed([AclsReplaced(pattern, AclSet(()))])
    assert not metadata_cache.image.acls


def test_after_registering_again_a_broker_waits_for_a_full_update() -> None:
    lab = Lab()
    lab.full()
    lab.metadata_cache.registered(EPOCH + 5)
    assert not lab.metadata_cache.has_full_update
    assert lab.full() is ErrorCode.STALE_BROKER_EPOCH
    lab.full(broker_epoch=EPOCH + 5)
    assert lab.metadata_cache.has_full_update


def test_a_full_update_may_arrive_before_the_confirmation_of_a_registration() -> None:
    lab = Lab()
    lab.full(broker_epoch=EPOCH + 5)
    lab.metadata_cache.registered(EPOCH + 5)
    assert lab.metadata_cache.has_full_update
    assert lab.metadata_cache.image.brokers[ME].epoch == EPOCH + 5


def test_before_it_has_registered_a_broker_rejects_control_requests() -> None:
    """They may be for the broker's former process; the controller sends them again."""
    lab = Lab()
    metadata_cache = MetadataCache(lab.image, lambda _image, _changes: None, node_id=ME)
    order = UpdateMetadataRequest(controller_epoch=1, broker_epoch=EPOCH, type=FULL)
    assert metadata_cache.update_metadata(order).error_code is ErrorCode.BROKER_NOT_AVAILABLE
    assert not metadata_cache.has_metadata
    metadata_cache.registered(EPOCH)
    assert metadata_cache.update_metadata(order).error_code is ErrorCode.NONE


def test_an_offline_replica_stays_offline_until_an_update_says_otherwise() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1], [0, 2])))
    lab.full()
    lab.happens(ReplicasOffline(NodeId(0), frozenset({name(0)})))
    lab.metadata(name(0))
    image = lab.metadata_cache.image
    assert not image.has_replica(NodeId(0), name(0))
    assert image.has_replica(NodeId(0), name(1))
    # Updates of other partitions do not change it.
    lab.metadata(name(1))
    assert not lab.metadata_cache.image.has_replica(NodeId(0), name(0))
    lab.happens(BrokerGone(NodeId(0)), BrokerRegistered(broker(0)))
    lab.metadata(name(0))
    assert lab.metadata_cache.image.has_replica(NodeId(0), name(0))


def test_a_request_overtaken_by_later_ones_is_rejected() -> None:
    """It may arrive by a slow connection after the controller has timed it out."""
    lab = Lab(TopicCreated(topic("t", [1])))
    states = all_metadata_states(lab.image)

    def full(order: int, epoch: int = 1) -> ErrorCode:
        request = UpdateMetadataRequest(
            controller_epoch=epoch, broker_epoch=EPOCH, type=FULL, order=order
        )
        if order == 2:
            request = replace(request, topic_states=states)
        return lab.metadata_cache.update_metadata(request).error_code

    assert full(2) is ErrorCode.NONE
    assert full(1) is ErrorCode.REQUEST_TIMED_OUT
    assert "t" in lab.metadata_cache.image.topics
    stop = StopReplicaRequest(controller_epoch=1, broker_epoch=EPOCH, order=1)
    assert lab.metadata_cache.stop_replica(stop).error_code is ErrorCode.REQUEST_TIMED_OUT
    assert full(1, epoch=2) is ErrorCode.NONE
    assert "t" not in lab.metadata_cache.image.topics


def test_a_topic_missing_in_the_full_update_is_new() -> None:
    lab = Lab()
    lab.full()
    lab.new_changes()
    lab.happens(TopicCreated(topic("t", [1, 0])))
    lab.metadata(name())
    assert lab.new_changes() == [TopicCreated(lab.image.topics["t"])]
    lab.happens(PartitionsAdded("t", (new_partition([0]), new_partition([1]))))
    lab.metadata(name(1), name(2))
    assert lab.new_changes() == [PartitionsAdded("t", lab.image.topics["t"].partitions[1:])]


def test_only_a_newer_partition_epoch_changes_a_partition() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.full()
    old = lab.image
    newer = led_by(partition_of(lab), ME, (ME,))
    lab.happens(PartitionChanged("t", 0, newer))
    lab.new_changes()
    lab.metadata(name())
    assert lab.new_changes() == [PartitionChanged("t", 0, newer)]
    lab.image, new = old, lab.image
    lab.metadata(name())
    assert lab.roles(name()) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert lab.new_changes() == []
    assert lab.metadata_cache.image.topics == new.topics


def test_leader_and_isr_sets_adding_and_removing_replicas_and_metadata_keeps_them() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.full()
    moving = PartitionRegistration(
        replicas=(NodeId(2), ME, NodeId(0)),
        isr=(NodeId(0), ME),
        leader=NodeId(0),
        partition_epoch=1,
        adding=(NodeId(2),),
        removing=(NodeId(0),),
    )
    lab.happens(PartitionChanged("t", 0, moving))
    lab.metadata(name())
    lab.new_changes()
    lab.roles(name())
    assert lab.new_changes() == [PartitionChanged("t", 0, moving)]
    lab.happens(PartitionChanged("t", 0, led_by(moving, ME, (ME,))))
    lab.metadata(name())
    assert lab.metadata_cache.image.topics == lab.image.topics


def test_a_replica_missing_in_a_newer_state_is_dropped() -> None:
    """RA-1: the following StopReplica has nothing to do."""
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.full()
    lab.new_changes()
    left = PartitionRegistration(
        replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0), leader_epoch=1, partition_epoch=1
    )
    lab.happens(PartitionChanged("t", 0, left))
    lab.metadata(name())
    expected = [PartitionChanged("t", 0, left), PartitionDropped("t", 0, is_deleted=True)]
    assert lab.new_changes() == expected
    assert lab.stop(name(), ReplicaStop(1, is_deleted=True)) == [ErrorCode.NONE]
    assert lab.new_changes() == []


def test_a_stopped_replica_stays_stopped_until_leader_and_isr_gives_it_a_role() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.full()
    lab.new_changes()
    assert lab.stop(name(), ReplicaStop(0, is_deleted=False)) == [ErrorCode.NONE]
    dropped = PartitionDropped("t", 0, is_deleted=False)
    assert lab.new_changes() == [dropped]
    changed = led_by(partition_of(lab), NodeId(0), (NodeId(0),))
    lab.happens(PartitionChanged("t", 0, changed))
    lab.metadata(name())
    assert lab.new_changes() == [PartitionChanged("t", 0, changed), dropped]
    lab.roles(name())
    assert lab.new_changes() == [PartitionChanged("t", 0, changed)]
    assert lab.stop(name(), ReplicaStop(0, is_deleted=False)) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert lab.new_changes() == []


def test_a_deleted_topic_disappears_at_once_and_stopping_its_replicas_is_no_error() -> None:
    lab = Lab(TopicCreated(topic("t", [1], [0])))
    lab.full()
    lab.new_changes()
    lab.metadata(gone=[lab.image.topics["t"]])
    assert lab.new_changes() == [TopicDeleted("t")]
    assert lab.stop(name(), ReplicaStop(EPOCH_DURING_DELETE, is_deleted=True)) == [ErrorCode.NONE]
    lab.metadata(gone=[lab.image.topics["t"]])
    assert lab.new_changes() == []


def test_the_deletion_of_a_topic_with_a_newer_namesake_is_ignored() -> None:
    lab = Lab(TopicCreated(topic("t", [1])))
    old = lab.image.topics["t"]
    lab.full()
    lab.new_changes()
    lab.happens(TopicDeleted("t"), TopicCreated(topic("t", [1, 2], letter=b"u")))
    new = lab.image.topics["t"]
    lab.metadata(name())
    assert lab.new_changes() == [TopicDeleted("t"), TopicCreated(new)]
    lab.metadata(gone=[old])
    assert lab.new_changes() == []
    assert lab.metadata_cache.image.topics["t"] == new


def test_topics_missing_in_a_full_update_are_deleted() -> None:
    lab = Lab(TopicCreated(topic("t", [1])), TopicCreated(topic("s", [1], letter=b"s")))
    lab.full()
    lab.new_changes()
    lab.happens(TopicDeleted("t"), BrokerGone(NodeId(2)))
    lab.full()
    assert lab.new_changes() == [BrokerGone(NodeId(2)), TopicDeleted("t")]


def test_configs_come_from_the_store_only() -> None:
    """The configs of a new topic may arrive before the deletion of the old one of its name."""
    lab = Lab(TopicCreated(topic("t", [1])))
    lab.full()
    lab.new_changes()
    configs = ConfigsReplaced(CONFIGS, {"retention.ms": "1"})
    lab.metadata_cache.store_changed([configs, TopicDeleted("t"), BrokerGone(NodeId(0))])
    assert lab.new_changes() == [configs]
    lab.metadata(gone=[lab.image.topics["t"]])
    assert lab.new_changes() == [TopicDeleted("t"), configs]
    assert lab.metadata_cache.image.configs_of(ResourceType.TOPIC, "t") == {"retention.ms": "1"}
    lab.metadata_cache.store_changed([ConfigsReplaced(CONFIGS, {})])
    assert len(lab.metadata_cache.image.configs) == 0


def test_the_store_may_report_the_next_controller_first() -> None:
    lab = Lab()
    lab.full()
    lab.metadata_cache.store_changed([ControllerGone()])
    assert lab.metadata_cache.image.controller_id == NO_CONTROLLER
    lab.metadata_cache.store_changed([ControllerElected(NodeId(2))])
    lab.full()
    assert lab.metadata_cache.image.controller_id == 2


def test_the_response_reports_replicas_that_cannot_be_served() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1], [1, 0])))
    before = lab.image
    assert lab.roles(name()) == [ErrorCode.UNKNOWN_TOPIC_ID]
    lab.full()
    lab.trouble[name(1)] = ErrorCode.KAFKA_STORAGE_ERROR
    assert lab.roles(name(), name(1)) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    more = after(before, PartitionsAdded("t", (new_partition([1]),)))
    assert lab.roles(name(2), image=more) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
