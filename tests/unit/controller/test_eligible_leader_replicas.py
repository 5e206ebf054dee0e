"""Eligible leader replicas (KIP-966): what enters and leaves the ELR, and who leads."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigOperation, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.alter_partition import alter_partition
from headwater.controller.configuration_control import incremental_alter_configs
from headwater.controller.elect_leaders import UNCLEAN, elect_leaders
from headwater.controller.eligible_leader_replicas import (
    DEFAULTS,
    MIN_INSYNC_REPLICAS,
    is_elr_enabled,
    required_configs,
)
from headwater.controller.feature_control import update_features
from headwater.controller.quorum.cluster_control import (
    HeldPartitions,
    fence_brokers,
    register_broker,
    unfence_broker,
)
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerRegistered,
    ConfigsReplaced,
    FeatureFinalized,
    MetadataChange,
    TopicCreated,
    apply,
)
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    NO_LEADER,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    SupportedFeature,
    TopicImage,
)
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.metadata.record_writer import RecordWriter
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from headwater.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from headwater.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TOPIC_ID = TopicId(b"t" * 16)
HELD = HeldPartitions([TopicPartition("t", 0)], lambda _: False)
STATIC = StaticConfig.parse({"node.id": "3000", MIN_INSYNC_REPLICAS: "2"})
FEATURES = (SupportedFeature(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),)


def directory(number: int) -> TopicId:
    return TopicId(bytes([number]) * 16)


def cluster(*, level: int = 1, min_isr: str | None = "2") -> ClusterImage:
    """Three brokers and a partition on all of them."""
    partition = PartitionRegistration(
        replicas=(ONE, TWO, THREE), isr=(ONE, TWO, THREE), leader=ONE, leader_epoch=4
    )
    topic = TopicImage(name="t", topic_id=TOPIC_ID, partitions=(partition,))
    changes: list[MetadataChange] = [
        FeatureFinalized("metadata.version", 27),
        FeatureFinalized(ELIGIBLE_LEADER_REPLICAS_VERSION, level),
        TopicCreated(topic),
    ]
    if min_isr is not None:
        changes.append(ConfigsReplaced(DEFAULTS, {MIN_INSYNC_REPLICAS: min_isr}))
    for node_id in (ONE, TWO, THREE):
        broker = BrokerRegistration(
            node_id=node_id,
            epoch=10 * node_id,
            incarnation_id=directory(100 + node_id),
            log_dirs=(directory(node_id),),
            features=FEATURES,
        )
        changes += [BrokerRegistered(broker), BrokerAdmitted(node_id, broker.epoch)]
    return apply(ClusterImage(cluster_id="c"), changes, FIRST_VERSION)


def through_records(image: ClusterImage, changes: Sequence[MetadataChange]) -> ClusterImage:
    """Apply changes as every replica of the log does it."""
    after = apply(image, changes, FIRST_VERSION)
    records = [each.message for each in RecordWriter(AclIds()).records_of(changes, image)]
    replayed = apply(image, RecordReplay(AclIds()).replay(records, image), FIRST_VERSION)
    assert replayed.topics["t"] == after.topics["t"]
    return after


def fence(image: ClusterImage, *node_ids: NodeId) -> ClusterImage:
    return through_records(image, fence_brokers(image, node_ids, HELD).changes)


def unfence(image: ClusterImage, node_id: NodeId) -> ClusterImage:
    return through_records(image, unfence_broker(image, node_id, HELD).changes)


def restart(image: ClusterImage, node_id: NodeId, *, previous_epoch: int) -> ClusterImage:
    """Register a new incarnation, which is fenced at first."""
    request = BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id="c",
        incarnation_id=directory(200 + node_id),
        features=tuple(
            Feature(name=name, min_supported_version=0, max_supported_version=27)
            for name in ("metadata.version", ELIGIBLE_LEADER_REPLICAS_VERSION)
        ),
        log_dirs=(directory(node_id),),
        previous_broker_epoch=previous_epoch,
    )
    result = register_broker(
        image,
        request,
        broker_epoch=500,
        finalized=image.features,
        has_valid_session=False,
        held=HELD,
    )
    assert not isinstance(result.answer, ApiError)
    return through_records(image, result.changes)


def state(image: ClusterImage) -> tuple[NodeId, tuple[NodeId, ...], tuple[NodeId, ...]]:
    """Leader, ISR and ELR."""
    partition = image.topics["t"].partitions[0]
    return partition.leader, partition.isr, partition.elr


def last_known(image: ClusterImage) -> tuple[NodeId, ...]:
    return image.topics["t"].partitions[0].last_known_elr


def test_a_member_that_leaves_an_isr_below_the_minimum_enters_the_elr() -> None:
    image = fence(cluster(), THREE)
    assert state(image) == (ONE, (ONE, TWO), ())
    image = fence(image, TWO)
    assert state(image) == (ONE, (ONE,), (TWO,))
    assert not last_known(image)


def test_the_isr_may_be_empty_and_remembers_its_last_leader() -> None:
    image = fence(fence(cluster(), THREE), TWO)
    image = fence(image, ONE)
    assert state(image) == (NO_LEADER, (), (ONE, TWO))
    assert last_known(image) == (ONE,)


def test_a_live_elr_member_leads_an_empty_isr() -> None:
    image = unfence(fence(fence(fence(cluster(), THREE), TWO), ONE), TWO)
    assert state(image) == (TWO, (TWO,), (ONE,))
    assert not last_known(image)


def test_a_replica_outside_isr_and_elr_does_not_lead() -> None:
    image = unfence(fence(fence(fence(cluster(), THREE), TWO), ONE), THREE)
    assert state(image) == (NO_LEADER, (), (ONE, TWO))


def test_an_unclean_restart_leaves_isr_and_elr() -> None:
    image = restart(fence(cluster(), THREE), ONE, previous_epoch=-1)
    assert state(image) == (TWO, (TWO,), ())
    image = fence(image, TWO)
    assert state(image) == (NO_LEADER, (), (TWO,))
    assert state(unfence(image, ONE)) == (NO_LEADER, (), (TWO,))


@pytest.mark.parametrize("previous_epoch", [-1, 7])
def test_an_unclean_restart_of_an_elr_member_leaves_the_elr(previous_epoch: int) -> None:
    image = fence(fence(cluster(), THREE), TWO)
    image = restart(image, TWO, previous_epoch=previous_epoch)
    assert state(image) == (ONE, (ONE,), ())


def test_a_clean_restart_stays_in_the_elr() -> None:
    image = fence(fence(cluster(), THREE), TWO)
    assert state(restart(image, TWO, previous_epoch=20)) == (ONE, (ONE,), (TWO,))
    image = restart(cluster(), ONE, previous_epoch=10)
    assert state(image) == (TWO, (TWO, THREE), ())


def test_a_restart_within_its_session_does_not_lead_with_what_is_left() -> None:
    """The edge that the ISR alone leaves open: the others left before the restart was noticed."""
    image = fence(cluster(), THREE, TWO)
    assert state(image) == (ONE, (ONE,), (TWO, THREE))
    image = unfence(restart(image, ONE, previous_epoch=-1), ONE)
    assert state(image) == (NO_LEADER, (), (TWO, THREE))
    assert state(unfence(image, THREE)) == (THREE, (THREE,), (TWO,))


def test_the_last_leader_leads_if_all_have_restarted_uncleanly() -> None:
    image = fence(fence(cluster(), THREE), TWO)
    image = restart(image, TWO, previous_epoch=-1)
    image = restart(image, ONE, previous_epoch=-1)
    assert state(image) == (NO_LEADER, (), ())
    assert last_known(image) == (ONE,)
    assert state(unfence(image, TWO)) == (NO_LEADER, (), ())
    assert state(unfence(image, ONE)) == (ONE, (ONE,), ())


def proposed(image: ClusterImage, *isr: NodeId) -> ClusterImage:
    """The leader, broker 1, proposes an ISR."""
    partition = image.topics["t"].partitions[0]
    data = PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=tuple(BrokerState(broker_id=each, broker_epoch=-1) for each in isr),
    )
    topic = TopicData(topic_id=TOPIC_ID, partitions=(data,))
    request = AlterPartitionRequest(broker_id=ONE, broker_epoch=10, topics=(topic,))
    return through_records(image, alter_partition(image, request).changes)


def test_alter_partition_moves_lagging_followers_to_the_elr_and_back() -> None:
    image = proposed(cluster(), ONE)
    assert state(image) == (ONE, (ONE,), (TWO, THREE))
    image = proposed(image, ONE, THREE)
    assert state(image) == (ONE, (ONE, THREE), ())


def test_an_unclean_election_clears_the_elr() -> None:
    image = unfence(fence(fence(fence(cluster(), THREE), TWO), ONE), THREE)
    request = ElectLeadersRequest(
        election_type=UNCLEAN, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),)
    )
    image = through_records(image, elect_leaders(image, request).changes)
    assert state(image) == (THREE, (THREE,), ())
    assert not last_known(image)


@pytest.mark.parametrize(("level", "min_isr"), [(0, "2"), (1, None)])
def test_the_last_member_stays_in_the_isr_without_elr(level: int, min_isr: str | None) -> None:
    image = fence(cluster(level=level, min_isr=min_isr), THREE, TWO)
    assert state(fence(image, ONE)) == (NO_LEADER, (ONE,), ())


def test_elr_is_in_force_once_the_default_is_in_the_log_and_no_broker_differs() -> None:
    image = cluster(min_isr=None)
    own = ConfigResource(ResourceType.BROKER, "1")
    configs = {MIN_INSYNC_REPLICAS: "1", "log.retention.ms": "7"}
    image = apply(image, [ConfigsReplaced(own, configs)], FIRST_VERSION)
    assert not is_elr_enabled(image)
    image = apply(image, required_configs(image, STATIC), FIRST_VERSION)
    assert is_elr_enabled(image)
    assert image.configs_of(*DEFAULTS) == {MIN_INSYNC_REPLICAS: "2"}
    assert image.configs_of(*own) == {"log.retention.ms": "7"}
    assert not required_configs(image, STATIC)
    assert not required_configs(cluster(level=0, min_isr=None), STATIC)


def altered(
    image: ClusterImage, resource: ConfigResource, operation: ConfigOperation, value: str | None
) -> tuple[ErrorCode, ClusterImage]:
    config = AlterableConfig(name=MIN_INSYNC_REPLICAS, config_operation=operation, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=(
            AlterConfigsResource(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                configs=(config,),
            ),
        )
    )
    result = incremental_alter_configs(image, request, STATIC)
    return result.answer[0].error_code, through_records(image, result.changes)


@pytest.mark.parametrize("resource", [DEFAULTS, ConfigResource(ResourceType.TOPIC, "t")])
def test_a_lower_minimum_clears_the_elr_of_isrs_that_are_large_enough(
    resource: ConfigResource,
) -> None:
    """Leaders commit from then on what ELR members do not have."""
    image = fence(fence(cluster(), THREE), TWO)
    error, image = altered(image, resource, ConfigOperation.SET, "1")
    assert not error
    assert state(image) == (ONE, (ONE,), ())


def test_an_empty_isr_keeps_its_elr_at_a_lower_minimum() -> None:
    image = fence(fence(fence(cluster(), THREE), TWO), ONE)
    _, image = altered(image, DEFAULTS, ConfigOperation.SET, "1")
    assert state(image) == (NO_LEADER, (), (ONE, TWO))
    assert state(unfence(image, TWO)) == (TWO, (TWO,), ())


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        (DEFAULTS, ConfigOperation.DELETE),
        (ConfigResource(ResourceType.BROKER, "1"), ConfigOperation.SET),
    ],
)
def test_brokers_cannot_differ_from_the_default_while_elr_is_in_force(
    resource: ConfigResource, operation: ConfigOperation
) -> None:
    value = "1" if operation is ConfigOperation.SET else None
    assert altered(cluster(), resource, operation, value)[0] is ErrorCode.INVALID_CONFIG
    image = cluster(level=0)
    assert altered(image, resource, operation, value)[0] is ErrorCode.NONE


def test_a_downgrade_puts_elr_members_back_into_an_empty_isr() -> None:
    image = fence(fence(fence(cluster(), THREE), TWO), ONE)
    update = FeatureUpdateKey(
        feature=ELIGIBLE_LEADER_REPLICAS_VERSION,
        max_version_level=0,
        upgrade_type=SAFE_DOWNGRADE,
    )
    result = update_features(image, UpdateFeaturesRequest(feature_updates=(update,)))
    assert not result.answer.code, result.answer
    image = through_records(image, result.changes)
    assert state(image) == (NO_LEADER, (ONE, TWO), ())
    assert not last_known(image)
    assert state(unfence(image, TWO)) == (TWO, (TWO,), ())


def test_fewer_replicas_than_the_minimum_need_no_elr() -> None:
    image = cluster()
    topic = image.topics["t"]
    small = replace(topic.partitions[0], replicas=(ONE,), isr=(ONE,))
    changed = TopicImage(name="t", topic_id=TOPIC_ID, partitions=(small,))
    image = apply(image, [TopicCreated(changed)], FIRST_VERSION)
    image = fence(image, ONE)
    assert state(image) == (NO_LEADER, (), (ONE,))
    assert state(unfence(image, ONE)) == (ONE, (ONE,), ())
