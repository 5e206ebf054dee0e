"""Changes, written as Kafka's metadata records and replayed, build the same image."""

import random
from dataclasses import replace

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    ControllerRegistered,
    FeatureFinalized,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    PartitionRegistration,
    SupportedFeature,
    TopicImage,
)
from headwater.metadata.config_entities import resource_of, user_resource
from headwater.metadata.metadata_record_serde import (
    ApiMessageAndVersion,
    decode_record,
    encode_record,
)
from headwater.metadata.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.metadata.record_writer import RecordWriter
from headwater.security.authentication.scram import ScramMechanism, credential_of
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity

EMPTY = ClusterImage(cluster_id="a-cluster")
NAMES = ("orders", "payments", "a.b", "c_d")
ENTITIES = (
    QuotaEntity(user="alice b"),
    QuotaEntity(user=DEFAULT),
    QuotaEntity(client_id="app"),
    QuotaEntity(user="bob", client_id=DEFAULT),
    QuotaEntity(ip="10.0.0.1"),
)


class Cluster:
    """An image, and a second one that is built from records only."""

    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        self.image = EMPTY
        self.replayed = EMPTY
        self.records = 0
        ids = AclIds()
        self.writer = RecordWriter(ids)
        self.replay = RecordReplay(ids)

    def write(self, changes: list[MetadataChange]) -> None:
        records = self.writer.records_of(changes, self.image)
        self.records += len(records)
        self.image = apply(self.image, changes, FIRST_VERSION)
        self.replayed = replayed(self.replay, records, self.replayed)

    def some_changes(self) -> list[MetadataChange]:
        rand, image = self.rand, self.image
        name = rand.choice(NAMES)
        topic = image.topics.get(name)
        node_id = NodeId(rand.randrange(4))
        match rand.randrange(12):
            case 0 | 1 | 2 if topic is None:
                return [TopicCreated(self._topic(name))]
            case 0 if topic is not None:
                return [TopicDeletionBegun(name), TopicDeleted(name)]
            case 1 if topic is not None:
                return [PartitionsAdded(name, (self._partition(), self._partition()))]
            case 2 | 3 | 4 if topic is not None and topic.partitions:
                number = rand.randrange(len(topic.partitions))
                return [PartitionChanged(name, number, self._changed(topic.partitions[number]))]
            case 5:
                kind = rand.choice((ResourceType.BROKER, ResourceType.GROUP))
                return [ConfigsReplaced(ConfigResource(kind, "1"), self._values())]
            case 6:
                return [self._entity_configs()]
            case 7:
                return [FeatureFinalized("group.version", rand.randrange(2))]
            case 8:
                return [ProducerIdsAllocated(rand.randrange(1 << 40))]
            case 9:
                return [self._acls()]
            case 10:
                if rand.random() < 0.3:
                    return [self._controller(node_id)]
                return [BrokerRegistered(self._broker(node_id))]
            case _ if (broker := image.registration(node_id)) is not None:
                return self._registration_changes(broker)
            case _:
                return []

    def _registration_changes(self, broker: BrokerRegistration) -> list[MetadataChange]:
        match self.rand.randrange(5):
            case 0:
                return [BrokerGone(broker.node_id)]
            case 1:
                return [BrokerRegistered(replace(broker, is_fenced=True))]
            case 2 if not broker.is_fenced:
                return [BrokerStopping(broker.node_id)]
            case 3:
                directories = broker.log_dirs[: self.rand.randrange(len(broker.log_dirs)) + 1]
                return [BrokerRegistered(replace(broker, log_dirs=directories))]
            case _:
                unfenced = replace(broker, is_fenced=False)
                return [BrokerRegistered(unfenced), BrokerAdmitted(broker.node_id, broker.epoch)]

    def _controller(self, node_id: NodeId) -> ControllerRegistered:
        return ControllerRegistered(
            ControllerRegistration(
                node_id=node_id,
                incarnation_id=self._uuid(),
                endpoints=(BrokerEndpoint(listener="CONTROLLER", host="one", port=9093),),
                features=(SupportedFeature("metadata.version", 7, 27),),
            )
        )

    def _uuid(self) -> TopicId:
        return TopicId(self.rand.randbytes(16))

    def _topic(self, name: str) -> TopicImage:
        partitions = tuple(self._partition() for _ in range(self.rand.randrange(4)))
        topic_id = TopicId(self.rand.randbytes(16))
        return TopicImage(name=name, topic_id=topic_id, partitions=partitions)

    def _ids(self, most: int = 4) -> tuple[NodeId, ...]:
        return tuple(
            NodeId(each) for each in self.rand.sample(range(5), self.rand.randint(1, most))
        )

    def _partition(self) -> PartitionRegistration:
        replicas = self._ids()
        return PartitionRegistration(
            replicas=replicas,
            isr=replicas[:2],
            leader=replicas[0],
            leader_epoch=self.rand.randrange(9),
            partition_epoch=self.rand.randrange(9),
            directories=self._directories(replicas),
        )

    def _directories(self, replicas: tuple[NodeId, ...]) -> tuple[TopicId, ...]:
        return tuple(self._uuid() for _ in replicas) if self.rand.random() < 0.5 else ()

    def _changed(self, before: PartitionRegistration) -> PartitionRegistration:
        """Mostly as Kafka counts epochs, sometimes not."""
        rand = self.rand
        after = replace(before, partition_epoch=before.partition_epoch + 1)
        for _ in range(rand.randrange(4)):
            match rand.randrange(6):
                case 0:
                    after = replace(after, isr=self._ids(3))
                case 1:
                    after = replace(
                        after,
                        leader=NodeId(rand.randrange(-1, 5)),
                        leader_epoch=before.leader_epoch + 1,
                    )
                case 2:
                    replicas = self._ids()
                    directories = self._directories(replicas)
                    after = replace(
                        after, replicas=replicas, adding=self._ids(2), directories=directories
                    )
                case 3:
                    after = replace(after, removing=self._ids(2), adding=())
                case 4:
                    after = replace(after, leader_epoch=after.leader_epoch + rand.randrange(3))
                case _:
                    after = replace(after, partition_epoch=after.partition_epoch + 1)
        return after

    def _values(self) -> dict[str, str]:
        names = ("retention.ms", "cleanup.policy", "max.message.bytes")
        return {each: str(self.rand.randrange(3)) for each in names if self.rand.random() < 0.6}

    def _entity_configs(self) -> ConfigsReplaced:
        rand = self.rand
        if rand.random() < 0.4:
            values = {}
            for mechanism in ScramMechanism:
                if rand.random() < 0.5:
                    salted = rand.randbytes(mechanism.hash_bytes)
                    found = credential_of(mechanism, salted, salt=b"salt", iterations=4_096)
                    values[mechanism.mechanism_name] = str(found)
            return ConfigsReplaced(user_resource("carol"), values)
        keys = ("producer_byte_rate", "request_percentage")
        entity = rand.choice(ENTITIES)
        values = {}
        for key in keys:
            if rand.random() < 0.6:
                number = rand.randint(1, 9)
                values[key] = str(number) if key == keys[0] else str(number / 2)
        return ConfigsReplaced(resource_of(entity), values)

    def _acls(self) -> AclsReplaced:
        rand = self.rand
        pattern = ResourcePattern(
            rand.choice((ResourceKind.TOPIC, ResourceKind.GROUP)),
            rand.choice(NAMES),
            rand.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        )
        entries = [
            AclEntry(f"User:{user}", "*", operation, Permission.ALLOW)
            for user in ("alice", "bob")
            for operation in (Operation.READ, Operation.WRITE)
            if rand.random() < 0.5
        ]
        known = self.image.acls.get(pattern)
        if known is not None:
            # New entries come last.
            kept = [each for each in known.entries if each in entries]
            entries = kept + [each for each in entries if each not in kept]
        return AclsReplaced(pattern, AclSet(tuple(entries)))

    def _broker(self, node_id: NodeId) -> BrokerRegistration:
        endpoint = BrokerEndpoint(
            listener="CLIENTS", host="one", port=9092, security_protocol="SASL_SSL"
        )
        return BrokerRegistration(
            node_id=node_id,
            epoch=self.rand.randrange(1 << 40),
            rack=self.rand.choice((None, "r1")),
            endpoints=(endpoint,),
            is_fenced=True,
            incarnation_id=self._uuid(),
            features=(SupportedFeature("group.version", 0, 1),),
            log_dirs=tuple(self._uuid() for _ in range(self.rand.randint(1, 3))),
        )


def replayed(
    replay: RecordReplay, records: list[ApiMessageAndVersion], image: ClusterImage
) -> ClusterImage:
    messages = [decode_record(encode_record(each)).message for each in records]
    return apply(image, replay.replay(messages, image), FIRST_VERSION)


def comparable(image: ClusterImage) -> object:
    """Without versions of ACLs, which count writes, and with current admissions only."""
    return (
        dict(image.topics.items()),
        dict(image.names_by_id.items()),
        dict(image.configs.items()),
        dict(image.features),
        image.next_producer_id,
        {pattern: acls.entries for pattern, acls in image.acls.items()},
        dict(image.brokers),
        dict(image.fenced_brokers),
        dict(image.controllers),
        [
            node_id
            for node_id, broker in image.brokers.items()
            if image.admitted_epochs.get(node_id) == broker.epoch
        ],
    )


@pytest.mark.parametrize("seed", range(40))
def test_replayed_records_build_the_image_that_was_decided_on(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(60):
        count = cluster.rand.randint(1, 3)
        for _ in range(count):
            cluster.write(cluster.some_changes())
        assert comparable(cluster.replayed) == comparable(cluster.image)
    assert cluster.records > 40


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_builds_the_image(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(80):
        cluster.write(cluster.some_changes())
    records = cluster.writer.image_records(cluster.image)
    rebuilt = replayed(RecordReplay(AclIds()), records, EMPTY)
    assert comparable(rebuilt) == comparable(cluster.image)
    # Whatever the order of partitions, as in snapshots of Kafka.
    partitions = [each for each in records if isinstance(each.message, PartitionRecord)]
    others = [each for each in records if each not in partitions]
    cluster.rand.shuffle(partitions)
    shuffled = replayed(RecordReplay(AclIds()), others + partitions, EMPTY)
    assert comparable(shuffled) == comparable(cluster.image)


def test_a_new_leader_is_a_small_record() -> None:
    cluster = Cluster(1)
    partition = PartitionRegistration(
        replicas=(NodeId(1), NodeId(2)), isr=(NodeId(1), NodeId(2)), leader=NodeId(1)
    )
    topic = TopicImage(name="orders", topic_id=TopicId(b"t" * 16), partitions=(partition,))
    cluster.write([TopicCreated(topic)])
    after = replace(
        partition, leader=NodeId(2), isr=(NodeId(2),), leader_epoch=1, partition_epoch=1
    )
    (record,) = cluster.writer.records_of([PartitionChanged("orders", 0, after)], cluster.image)
    assert record.message == PartitionChangeRecord(
        partition_id=0, topic_id=topic.topic_id, isr=(2,), leader=2
    )


def test_a_transaction_counts_as_a_whole_or_not_at_all() -> None:
    replay = RecordReplay(AclIds())
    topic = TopicRecord(name="orders", topic_id=TopicId(b"t" * 16))
    image = EMPTY

    def feed(*records: MetadataRecord) -> None:
        nonlocal image
        image = apply(image, replay.replay(records, image), FIRST_VERSION)

    feed(BeginTransactionRecord(name="first"), topic)
    feed(NoOpRecord())
    assert replay.is_in_transaction
    assert "orders" not in image.topics
    feed(AbortTransactionRecord())
    assert "orders" not in image.topics
    feed(BeginTransactionRecord(name="second"), topic)
    feed(EndTransactionRecord())
    assert "orders" in image.topics
    assert not replay.is_in_transaction
