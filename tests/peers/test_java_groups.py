"""Kafka's Java client and tools in groups that Headwater coordinates."""

import re
from collections.abc import Iterator

import pytest

from tests.peers.apache_kafka import run_class
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_4_1
from tests.peers.java_members import JavaMembers, settle
from tests.peers.lab import Lab

TOOLS = "org.apache.kafka.tools"
CONSUMER = "org.apache.kafka.clients.consumer"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadwaterBroker]:
    """A broker with short session timeouts."""
    with HeadwaterBroker(tmp_path_factory.mktemp("groups"), SETTINGS) as broker:
        yield broker


def tool(broker: HeadwaterBroker, name: str, *arguments: str, given: str = "") -> str:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    return run_class(KAFKA_4_1, f"{TOOLS}.{name}", *servers, *arguments, given=given)


def create(broker: HeadwaterBroker, topic: str, partitions: int) -> None:
    lab = Lab(topic, broker.bootstrap_servers)
    lab.topic(partitions=partitions)
    lab.client.close()


@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [
        ("classic", "RangeAssignor"),
        ("classic", "RoundRobinAssignor"),
        ("classic", "StickyAssignor"),
        ("classic", "CooperativeStickyAssignor"),
        ("consumer", "uniform"),
        ("consumer", "range"),
    ],
)
def test_java_client_rebalances_on_join_leave_and_crash(
    broker: HeadwaterBroker, protocol: str, assignor: str
) -> None:
    """GR-1 to GR-13, NG-1 to NG-6."""
    topic = f"java-{protocol}-{assignor}"
    create(broker, topic, 4)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        settings["partition.assignment.strategy"] = f"{CONSUMER}.{assignor}"
        settings["session.timeout.ms"] = "5000"
        settings["heartbeat.interval.ms"] = "500"
    else:
        settings["group.remote.assignor"] = assignor
    with JavaMembers(topic, 2, settings) as first:
        settle([first], 2, 2)
        with JavaMembers(topic, 3, settings) as second:
            settle([first, second], 0, 1, 1, 1, 1)
            first.kill()
            settle([second], 1, 1, 2)
            second.close_one()
            settle([second], 2, 2)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_groups_tool_lists_describes_resets_and_deletes(
    broker: HeadwaterBroker, protocol: str
) -> None:
    """GR-16, and offsets that are altered while the group is empty."""
    topic = group = f"java-tool-{protocol}"
    create(broker, topic, 1)
    tool(broker, "ConsoleProducer", "--topic", topic, given="a\nb\nc\nd\n")
    reading = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3")
    with_protocol = ("--consumer-property", f"group.protocol={protocol}")
    read = tool(broker, "consumer.ConsoleConsumer", *reading, *with_protocol)
    assert read.splitlines() == ["a", "b", "c"]
    groups = "consumer.group.ConsumerGroupCommand"
    assert group in tool(broker, groups, "--list").splitlines()
    listed = tool(broker, groups, "--list", "--type", protocol)
    assert re.search(rf"^{group}\s+{protocol}\s*$", listed, re.MULTILINE | re.IGNORECASE)
    state = tool(broker, groups, "--describe", "--group", group, "--state")
    assert re.search(rf"^{group}\s.*\sEmpty\s.*\s0\s*$", state, re.MULTILINE), state
    described = tool(broker, groups, "--describe", "--group", group)
    assert re.search(rf"^{group}\s+{topic}\s+0\s+\d+\s+4\s+\d+\s", described, re.MULTILINE)
    for option, wanted in (
        ("--to-latest", 4),
        ("--to-datetime=2001-01-01T00:00:00.000", 0),
        ("--to-offset=4", 4),
        ("--shift-by=-1", 3),
    ):
        reset = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
        told = tool(broker, groups, *reset, option)
        assert re.search(rf"^{group}\s+{topic}\s+0\s+{wanted}\s*$", told, re.MULTILINE), told
    rest = ("--topic", topic, "--group", group, "--max-messages", "1")
    assert tool(broker, "consumer.ConsoleConsumer", *rest, *with_protocol) == "d\n"
    offsets = ("--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in tool(broker, groups, *offsets)
    assert "successful" in tool(broker, groups, "--delete", "--group", group)
    assert group not in tool(broker, groups, "--list").splitlines()


def test_configs_tool_changes_group_configs(broker: HeadwaterBroker) -> None:
    configs = "kafka.admin.ConfigCommand"
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    of_group = ("--entity-type", "groups", "--entity-name", "java-configs")
    change = ("--alter", "--add-config", "consumer.session.timeout.ms=7000")
    run_class(KAFKA_4_1, configs, *servers, *of_group, *change)
    described = run_class(KAFKA_4_1, configs, *servers, *of_group, "--describe")
    assert re.search(r"consumer\.session\.timeout\.ms=7000.*GROUP_CONFIG", described), described


def test_verifiable_consumer_reads_each_record_once(broker: HeadwaterBroker) -> None:
    topic = "java-verifiable"
    create(broker, topic, 2)
    records = "".join(f"{number}\n" for number in range(50))
    tool(broker, "ConsoleProducer", "--topic", topic, given=records)
    told = tool(
        broker,
        "VerifiableConsumer",
        *("--topic", topic, "--group-id", topic, "--group-protocol", "consumer"),
        *("--max-messages", "50", "--reset-policy", "earliest"),
    )
    counts = re.findall(r'"name":"records_consumed".*?"count":(\d+)', told)
    counts += re.findall(r'"count":(\d+).*?"name":"records_consumed"', told)
    assert '"success":true' in told
    assert sum(map(int, counts)) == 50, told


def test_offsets_tool_and_dump_tool_read_group_records(
    broker: HeadwaterBroker,
) -> None:
    topic = group = "java-dumped"
    create(broker, topic, 1)
    tool(broker, "ConsoleProducer", "--topic", topic, given="a\nb\n")
    reading = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "2")
    tool(broker, "consumer.ConsoleConsumer", *reading)
    for time, offset in (("earliest", 0), ("latest", 2)):
        found = tool(broker, "GetOffsetShell", "--topic", topic, "--time", time)
        assert found.splitlines() == [f"{topic}:0:{offset}"]
    logs = sorted(broker.data.glob("__consumer_offsets-*/*.log"))
    files = ",".join(map(str, logs))
    dumped = run_class(
        KAFKA_4_1, "kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", files
    )
    key = rf'"group":"{group}","topic":"{topic}","partition":0'
    assert re.search(rf'{key}.*"offset":2', dumped), dumped
    assert re.search(rf'"type":"2".*"group":"{group}".*"protocolType":"consumer"', dumped), dumped
    assert "isvalid: false" not in dumped
