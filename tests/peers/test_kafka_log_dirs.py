"""Kafka's tools move partitions between log directories of a Headwater broker (KIP-113)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.testing import EmbeddedBroker
from tests.cluster.cluster_clients import await_true
from tests.peers.apache_kafka import run_class
from tests.peers.jars import KAFKA_4_1

TOOLS = "org.apache.kafka.tools"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
TOPIC = "moving"


@pytest.fixture
def directories(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.fixture
def servers(directories: list[str]) -> Iterator[str]:
    with EmbeddedBroker({"log.dirs": ",".join(directories)}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(3_000):
                producer.send(TOPIC, bytes(1_000))
        yield broker.bootstrap_servers


def run(servers: str, name: str, *arguments: str) -> str:
    return run_class(KAFKA_4_1, name, "--bootstrap-server", servers, *arguments)


def replicas(servers: str) -> dict[str, tuple[bool, int]]:
    """The partition's replicas in the output of `kafka-log-dirs`.

    By directory: whether it is a future replica, and its lag.
    """
    told = run(servers, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", TOPIC)
    (broker,) = json.loads(told[told.index("{") :])["brokers"]
    return {
        directory["logDir"]: (each["isFuture"], each["offsetLag"])
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    }


def test_kafkas_tools_move_a_partition_with_and_without_a_throttle(
    servers: str, directories: list[str], tmp_path: Path
) -> None:
    ((home, state),) = replicas(servers).items()
    assert state == (False, 0)
    (target,) = [each for each in directories if each != home]
    plan = tmp_path / "plan.json"
    wanted = {"topic": TOPIC, "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    file = ("--reassignment-json-file", str(plan))
    slow = ("--replica-alter-log-dirs-throttle", "100000")
    begun = run(servers, REASSIGN, "--execute", *file, *slow)
    assert f"log directory to {target} for replica {TOPIC}-0 with broker 0" in begun
    found = replicas(servers)
    assert found[home] == (False, 0)
    is_future, lag = found[target]
    assert is_future
    assert 0 < lag <= 3_000
    still = run(servers, REASSIGN, "--verify", "--preserve-throttles", *file)
    assert f"Reassignment of replica {TOPIC}-0-0 is still in progress." in still
    # No limit any more: the tool changes it for moves that are under way.
    fast = ("--replica-alter-log-dirs-throttle", "1000000000", "--additional")
    run(servers, REASSIGN, "--execute", *file, *fast)
    await_true(lambda: replicas(servers) == {target: (False, 0)})
    verified = run(servers, REASSIGN, "--verify", *file)
    assert f"Reassignment of replica {TOPIC}-0-0 completed successfully." in verified
