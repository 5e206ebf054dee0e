"""Headwater brokers under an Apache Kafka controller, alone and beside Apache brokers."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.apache_kafka import run_class
from tests.peers.jars import KAFKA_4_1
from tests.peers.kraft_nodes import (
    ApacheBroker,
    ApacheController,
    HeadwaterKRaftBroker,
    KRaftNode,
)

pytestmark = pytest.mark.peers

_PATIENCE_S = 60
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KRaftCluster:
    """One Apache controller and brokers of any kind, with a librdkafka client."""

    def __init__(self, controller: ApacheController, brokers: Sequence[KRaftNode]) -> None:
        self.controller = controller
        self.brokers = {each.node_id: each for each in brokers}
        self.bootstrap_servers = ",".join(each.address for each in brokers)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create(
        self,
        name: str,
        *,
        partitions: int = 3,
        replicas: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
        self.admin.create_topics([topic], operation_timeout=30)[name].result(_PATIENCE_S)
        # The controller has committed it; brokers learn of it a moment later.
        eventually(lambda: len(self.partitions(name)) == partitions, f"{name} is known")

    def partitions(self, name: str) -> dict[int, Any]:
        found = self.admin.list_topics(name, timeout=_PATIENCE_S).topics[name].partitions
        return dict(found)

    def produce(self, name: str, values: Sequence[str]) -> list[KafkaError]:
        """Produce with acks=all; return the errors."""
        errors: list[KafkaError] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True}
        )
        for value in values:
            producer.produce(
                name,
                value.encode(),
                key=value.encode(),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(_PATIENCE_S) == 0
        return errors

    def consume(self, name: str, group: str, count: int, **config: str) -> list[str]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )
        values: list[str] = []
        consumer.subscribe([name])
        try:
            deadline = monotonic() + _PATIENCE_S
            while len(values) < count and monotonic() < deadline:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    values.append((message.value() or b"").decode())
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return sorted(values)


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + _PATIENCE_S
    while not is_so():
        assert monotonic() < deadline, f"not within {_PATIENCE_S} s: {what}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    folder = tmp_path_factory.mktemp("kraft")
    controller = ApacheController(folder).start()
    brokers = [
        HeadwaterKRaftBroker(folder, node_id, controller.address, _REPLICATED)
        for node_id in (1, 2, 3)
    ]
    try:
        for each in brokers:
            each.launch()
        for each in brokers:
            each.await_ready()
        yield KRaftCluster(controller, brokers)
    finally:
        for node in (*brokers, controller):
            node.kill()
    for each in brokers:
        assert "Traceback" not in each.log.read_text(), each.log.read_text()


def values(prefix: str, count: int = 500) -> list[str]:
    return sorted(f"{prefix}-{number:04d}" for number in range(count))


def test_acknowledged_records_reach_groups_of_both_protocols(cluster: KRaftCluster) -> None:
    cluster.create("groups")
    sent = values("record")
    assert cluster.produce("groups", sent) == []
    assert cluster.consume("groups", "classic", len(sent)) == sent
    assert cluster.consume("groups", "modern", len(sent), group_protocol="consumer") == sent
    for partition in cluster.partitions("groups").values():
        assert sorted(partition.isrs) == [1, 2, 3]


def test_only_committed_transactions_are_read(cluster: KRaftCluster) -> None:
    cluster.create("transactions")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "transfers"}
    )
    producer.init_transactions(_PATIENCE_S)
    for outcome in ("committed", "aborted", "committed"):
        producer.begin_transaction()
        for value in values(outcome, 50):
            producer.produce("transactions", value.encode())
        assert producer.flush(_PATIENCE_S) == 0
        if outcome == "committed":
            producer.commit_transaction(_PATIENCE_S)
        else:
            producer.abort_transaction(_PATIENCE_S)
    read = cluster.consume("transactions", "committed", 100, isolation_level="read_committed")
    assert read == sorted(values("committed", 50) * 2)


def test_kafkas_tools_see_the_cluster(cluster: KRaftCluster) -> None:
    broker = cluster.bootstrap_servers
    cluster.create("described", config={"retention.ms": "3600000"})
    text = run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", broker, "--describe", "--topic", "described"),
    )
    assert "retention.ms=3600000" in text
    assert text.count("Isr:") == 3
    features = run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.FeatureCommand",
        *("--bootstrap-server", broker, "describe"),
    )
    assert "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3" in features
    assert "FinalizedVersionLevel: 4.1-IV1" in features
    assert "Feature: kraft.version" in features


def test_kafkas_quorum_tool_asks_a_broker(cluster: KRaftCluster) -> None:
    text = run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.MetadataQuorumCommand",
        *("--bootstrap-server", cluster.bootstrap_servers, "describe", "--replication"),
    )
    rows = [line.split() for line in text.splitlines()[1:]]
    assert {row[0]: row[-1] for row in rows if row} == {
        "100": "Leader",
        "1": "Observer",
        "2": "Observer",
        "3": "Observer",
    }


def test_broker_that_comes_late_gets_a_snapshot(tmp_path: Path) -> None:
    """The log before the snapshot is gone from the controller."""
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "2000",
        "metadata.max.retention.bytes": "1",
        "internal.metadata.log.segment.bytes": "1000",
    }
    controller = ApacheController(tmp_path, settings=settings)
    ones = dict.fromkeys(_REPLICATED, "1")
    first = HeadwaterKRaftBroker(tmp_path, 1, controller.address, ones)
    late = HeadwaterKRaftBroker(tmp_path, 2, controller.address, ones)
    try:
        controller.start()
        first.start()
        cluster = KRaftCluster(controller, [first])
        for number in range(30):
            cluster.create(f"topic-{number}", partitions=5, replicas=1)
        log = controller.data / "__cluster_metadata-0"
        eventually(lambda: not (log / "00000000000000000000.log").exists(), "the log was cleaned")
        late.start()
        assert "Loaded snapshot" in late.log.read_text()
        known = KRaftCluster(controller, [late]).admin.list_topics(timeout=_PATIENCE_S)
        assert {f"topic-{number}" for number in range(30)} <= set(known.topics)
        # The brokers' own snapshots and logs are good for a restart, too.
        late.kill()
        late.start()
    finally:
        for node in (first, late, controller):
            node.kill()


def test_configs_and_deletions_reach_every_broker(cluster: KRaftCluster) -> None:
    cluster.create("short")
    folders = [each.data / "short-0" for each in cluster.brokers.values()]
    eventually(lambda: all(each.is_dir() for each in folders), "every replica has a folder")
    cluster.admin.delete_topics(["short"])["short"].result(_PATIENCE_S)
    eventually(lambda: not any(each.exists() for each in folders), "no replica has a folder")


def test_killed_broker_loses_its_leaderships_and_returns_to_the_isr(
    cluster: KRaftCluster,
) -> None:
    cluster.create("killed", partitions=6, config={"min.insync.replicas": "2"})
    victim = cluster.partitions("killed")[0].leader
    assert cluster.produce("killed", values("before")) == []
    cluster.brokers[victim].kill()
    eventually(
        lambda: all(
            each.leader not in (victim, -1) for each in cluster.partitions("killed").values()
        ),
        "other brokers lead",
    )
    assert cluster.produce("killed", values("without")) == []
    cluster.brokers[victim].start()
    eventually(
        lambda: all(len(each.isrs) == 3 for each in cluster.partitions("killed").values()),
        "the ISR has all replicas again",
    )
    assert cluster.produce("killed", values("after")) == []
    sent = sorted(values("before") + values("without") + values("after"))
    assert cluster.consume("killed", "killed", len(sent)) == sent


def test_controlled_shutdown_moves_leaderships_first(cluster: KRaftCluster) -> None:
    cluster.create("stopped", partitions=6)
    leader = cluster.partitions("stopped")[0].leader
    assert cluster.brokers[leader].stop() == 0
    states = cluster.partitions("stopped").values()
    assert all(each.leader not in (leader, -1) for each in states)
    assert all(leader not in each.isrs for each in states)
    assert (cluster.brokers[leader].data / ".kafka_cleanshutdown").exists()
    cluster.brokers[leader].start()
    eventually(
        lambda: all(len(each.isrs) == 3 for each in cluster.partitions("stopped").values()),
        "the ISR has all replicas again",
    )


def test_brokers_serve_without_a_controller_and_find_it_again(cluster: KRaftCluster) -> None:
    cluster.create("headless")
    cluster.controller.kill()
    assert cluster.produce("headless", values("headless")) == []
    assert cluster.consume("headless", "headless", 500) == values("headless")
    cluster.controller.start()
    cluster.create("after-restart")
    assert cluster.produce("after-restart", values("restarted")) == []


def _error_line(node: KRaftNode) -> str:
    done = subprocess.run(node.command(), capture_output=True, text=True, timeout=_PATIENCE_S)
    assert done.returncode == 2, done
    lines = [each for each in done.stderr.splitlines() if each.startswith("headwater:")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_unformatted_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    node = HeadwaterKRaftBroker(tmp_path, 9, "127.0.0.1:9", {})
    assert "is not formatted; format it with headwater storage format" in _error_line(node)


def test_directory_of_another_cluster_is_refused_in_one_line(
    tmp_path: Path, cluster: KRaftCluster
) -> None:
    node = HeadwaterKRaftBroker(tmp_path, 9, cluster.controller.address, {})
    node.data.mkdir()
    meta = "version=1\nnode.id=9\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    meta += "directory.id=JEXY6aqzQY-32P5TStzaFg\n"
    (node.data / "meta.properties").write_text(meta)
    assert "belongs to cluster AAAAAAAAAAAAAAAAAAAAAQ" in _error_line(node)


def test_controller_learns_which_log_directory_has_a_replica(tmp_path: Path) -> None:
    controller = ApacheController(tmp_path)
    second = tmp_path / "second"
    folders = f"{tmp_path / 'node-1' / 'data'},{second}"
    ones = {**dict.fromkeys(_REPLICATED, "1"), "log.dirs": folders}
    broker = HeadwaterKRaftBroker(tmp_path, 1, controller.address, ones)
    try:
        controller.start()
        broker.start()
        cluster = KRaftCluster(controller, [broker])
        cluster.create("spread", partitions=4, replicas=1)
        ids = [
            line.partition("=")[2]
            for folder in (broker.data, second)
            for line in (folder / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id")
        ]
        assert len(ids) == 2
        log = controller.data / "__cluster_metadata-0" / "00000000000000000000.log"

        def assigned() -> dict[str, int]:
            text = run_class(
                KAFKA_4_1,
                "kafka.tools.DumpLogSegments",
                *("--cluster-metadata-decoder", "--files", str(log)),
            )
            lines = [each for each in text.splitlines() if "PARTITION_CHANGE_RECORD" in each]
            return {each: sum(f'["{each}"]' in line for line in lines) for each in ids}

        eventually(lambda: assigned() == dict.fromkeys(ids, 2), "all replicas are assigned")
    finally:
        broker.kill()
        controller.kill()


def test_apache_and_headwater_brokers_are_in_one_isr(tmp_path: Path) -> None:
    controller = ApacheController(tmp_path)
    apache = ApacheBroker(tmp_path, 1, controller.address, _REPLICATED)
    ours = [
        HeadwaterKRaftBroker(tmp_path, node_id, controller.address, _REPLICATED)
        for node_id in (2, 3)
    ]
    nodes: list[KRaftNode] = [apache, *ours]
    try:
        controller.start()
        for each in nodes:
            each.launch()
        for each in nodes:
            each.await_ready()
        cluster = KRaftCluster(controller, nodes)
        cluster.create("mixed", partitions=6, config={"min.insync.replicas": "2"})
        leaders = {each.leader for each in cluster.partitions("mixed").values()}
        assert leaders == {1, 2, 3}
        assert cluster.produce("mixed", values("all")) == []
        for node in nodes:
            node.kill()
            assert cluster.produce("mixed", values(f"without-{node.node_id}")) == []
            node.start()
            eventually(
                lambda: all(len(each.isrs) == 3 for each in cluster.partitions("mixed").values()),
                "the ISR has brokers of both kinds",
            )
        sent = sorted(
            [*values("all"), *(each for n in (1, 2, 3) for each in values(f"without-{n}"))]
        )
        assert cluster.consume("mixed", "mixed", len(sent)) == sent
    finally:
        for node in (*nodes, controller):
            node.kill()
