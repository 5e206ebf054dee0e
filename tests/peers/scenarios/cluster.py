"""Log directories, producers, features, telemetry, brokers."""

from headwater.common.ids import NO_TOPIC_ID
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from headwater.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.produce import ProduceResponse
from headwater.protocol.messages.push_telemetry import PushTelemetryRequest
from headwater.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headwater.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headwater.records.batch_building import build_batch
from tests.peers.lab import Lab
from tests.peers.scenarios.produce import BY_NAME, produce
from tests.peers.transcript import Plain


def _described(lab: Lab, request: DescribeLogDirsRequest, version: int) -> Plain:
    """Without values of the machine: paths and sizes of volumes."""
    answer = lab.get(request, DescribeLogDirsResponse, version)
    shown = lab.plain(answer, version)
    assert isinstance(shown, dict)
    results: list[Plain] = []
    for each in answer.results:
        result = lab.plain(each, version)
        assert isinstance(result, dict)
        mine = [topic for topic in each.topics if topic.name.startswith(lab.name)]
        replaced: dict[str, Plain] = {
            "log_dir": each.log_dir.startswith("/"),
            "topics": [lab.plain(topic, version) for topic in mine],
        }
        if version >= 4:
            replaced["total_bytes"] = each.total_bytes > 0
            replaced["usable_bytes"] = each.usable_bytes > 0
        results.append({**result, **replaced})
    return {**shown, "results": results}


def log_directories(lab: Lab) -> None:
    topic = lab.topic()
    lab.get(produce(topic, lab.batch("a", "b")), ProduceResponse, BY_NAME)
    asked = (DescribableLogDirTopic(topic=topic, partitions=(0, 5)),)
    for version in range(1, 5):
        lab.note(
            f"version {version}", _described(lab, DescribeLogDirsRequest(topics=asked), version)
        )
    lab.note("all", _described(lab, DescribeLogDirsRequest(topics=None), 4))
    lab.note("no topics", _described(lab, DescribeLogDirsRequest(topics=()), 4))
    strange = (DescribableLogDirTopic(topic=lab.named("nowhere"), partitions=(0,)),)
    lab.note("unknown", _described(lab, DescribeLogDirsRequest(topics=strange), 4))


def moves_between_log_directories(lab: Lab) -> None:
    topic = lab.topic()
    answer = lab.get(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    here = answer.results[0].log_dir

    def show(label: str, path: str, name: str = topic, partition: int = 0) -> None:
        moved = AlterReplicaLogDirTopic(name=name, partitions=(partition,))
        directory = AlterReplicaLogDir(path=path, topics=(moved,))
        lab.show(label, AlterReplicaLogDirsRequest(dirs=(directory,)))

    show("to where it is", here)
    show("to nowhere", "/no/such/directory")
    show("a relative path", "directory")
    show("an unknown topic", here, lab.named("nowhere"))
    show("an unknown partition", here, partition=6)
    show("an unknown topic to nowhere", "/no/such/directory", lab.named("nowhere"))
    lab.show("nothing", AlterReplicaLogDirsRequest())


def producers(lab: Lab) -> None:
    topic = lab.topic()
    batch = build_batch(
        lab.records("a", "b"), producer_id=lab.producer_id(), producer_epoch=3, base_sequence=7
    )
    lab.show("produce", produce(topic, batch), BY_NAME)

    def show(label: str, name: str = topic, partition: int = 0) -> None:
        asked = TopicRequest(name=name, partition_indexes=(partition,))
        lab.show(label, DescribeProducersRequest(topics=(asked,)))

    show("one producer")
    show("unknown partition", partition=4)
    show("unknown topic", lab.named("nowhere"))
    show("bad topic name", "a b")
    lab.show("none", DescribeProducersRequest())


def producer_ids(lab: Lab) -> None:
    lab.producer_id()
    for version in range(6):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        lab.show(f"version {version}", request, version)
    for label, request in (
        ("no timeout", InitProducerIdRequest(transactional_id=None)),
        (
            "an id of the client's",
            InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=2),
        ),
        ("half an id", InitProducerIdRequest(transactional_id=None, producer_id=5)),
        ("half an epoch", InitProducerIdRequest(transactional_id=None, producer_epoch=5)),
        ("an empty transactional id", InitProducerIdRequest(transactional_id="")),
    ):
        lab.show(label, request)
    one, two = (
        lab.get(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
            InitProducerIdResponse,
        ).producer_id
        for _ in range(2)
    )
    lab.note("ids rise by one", two - one)


def features(lab: Lab) -> None:
    def show(label: str, *updates: FeatureUpdateKey, version: int = 2) -> None:
        request = UpdateFeaturesRequest(
            timeout_ms=10_000, feature_updates=updates, validate_only=version > 0
        )
        lab.show(label, request, version)

    for version in (1, 2):
        show(f"nothing, {version}", version=version)
        unknown = FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
        show(f"unknown feature, {version}", unknown, version=version)
        high = FeatureUpdateKey(feature="metadata.version", max_version_level=999)
        show(f"too high, {version}", high, version=version)
    low = FeatureUpdateKey(feature="group.version", max_version_level=0)
    show("lower without leave", low)
    show("lower", FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2))
    show("the same", FeatureUpdateKey(feature="group.version", max_version_level=1))
    show(
        "a kind that is none",
        FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=7),
    )
    show("negative", FeatureUpdateKey(feature="group.version", max_version_level=-1))
    show("twice", high, high)


def brokers_that_leave(lab: Lab) -> None:
    lab.show("unknown", UnregisterBrokerRequest(broker_id=77))
    lab.show("negative", UnregisterBrokerRequest(broker_id=-1))


def telemetry(lab: Lab) -> None:
    """A broker without a receiver of client metrics does not advertise these APIs."""
    answer = lab.get(GetTelemetrySubscriptionsRequest(), GetTelemetrySubscriptionsResponse)
    shown = lab.plain(answer, 0)
    assert isinstance(shown, dict)
    # A subscription's id is a hash of what it says, which is each broker's own affair.
    lab.note("subscriptions", {**shown, "subscription_id": "(id)"})
    lab.show("push", PushTelemetryRequest(client_instance_id=NO_TOPIC_ID))
