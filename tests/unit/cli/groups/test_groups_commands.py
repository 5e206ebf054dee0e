"""`headwater groups` against a real broker."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headwater.cli.groups.group_lags import lag_rows
from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest, shell: Shell) -> str:
    """Two partitions with five records each; the group of the same name is at 2 in the first."""
    test: str = request.node.originalname
    name = f"{test[:60]}-{uuid4().hex[:8]}"
    shell.does("topics", "create", name, "-p", "2", "-c", "retention.ms=-1")
    with Producer(bootstrap_servers=shell.bootstrap) as producer:
        for number in range(10):
            at_ms = START_MS + number * HOUR_MS
            producer.send(name, b"x", partition=number % 2, timestamp=at_ms)
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        admin.alter_group_offsets(name, {TopicPartition(name, 0): 2})
    return name


def moved(shell: Shell, topic: str, *words: str) -> dict[object, object]:
    rows = shell.tells("groups", "reset-offsets", topic, *words)
    return {row["partition"]: row["after"] for row in rows}


def test_reset_offsets_supports_all_options_of_kafka_consumer_groups(
    shell: Shell, topic: str
) -> None:
    here = ("--topic", topic)
    assert moved(shell, topic, *here, "--to-earliest") == {0: 0, 1: 0}
    assert moved(shell, topic, *here, "--to-latest") == {0: 5, 1: 5}
    assert moved(shell, topic, *here, "--to-current") == {0: 2, 1: 5}
    assert moved(shell, topic, *here, "--to-offset", "3") == {0: 3, 1: 3}
    at = str(START_MS + 3 * HOUR_MS)
    assert moved(shell, topic, *here, "--to-datetime", at) == {0: 2, 1: 1}
    # All records are younger than this and older than a day.
    assert moved(shell, topic, *here, "--by-duration", "P20000D") == {0: 0, 1: 0}
    assert moved(shell, topic, *here, "--by-duration", "P1D") == {0: 5, 1: 5}
    assert moved(shell, topic, "--topic", f"{topic}:0", "--shift-by", "-1") == {0: 1}
    assert moved(shell, topic, "--all-topics", "--to-latest") == {0: 5}


def test_exported_offsets_can_be_imported(shell: Shell, topic: str, tmp_path: Path) -> None:
    words = ("groups", "reset-offsets", topic)
    exported = shell.does(*words, "--all-topics", "--to-current", "--export")
    assert exported == f"{topic},0,2\n"
    file = tmp_path / "offsets.csv"
    file.write_text(f'{exported}"{topic}",1,4\nother,{topic},1,3\n{topic},{topic},0,1\n')
    assert moved(shell, topic, "--from-file", str(file)) == {0: 1, 1: 4}
    shell.does(*words, "--from-file", str(file), "--execute")
    assert moved(shell, topic, "--all-topics", "--to-current") == {0: 1, 1: 4}


@pytest.mark.parametrize(
    "words",
    [
        "--topic T",
        "--to-earliest",
        "--topic T --all-topics --to-earliest",
        "--topic T --to-earliest --to-latest",
        "--topic T --by-duration 6H",
        "--topic T --to-time someday",
        "--topic T:x --to-latest",
        "--from-file FILE --topic T",
        "--from-file FILE",
        "--from-file /missing",
        "--all-topics --to-current --export --json",
    ],
)
def test_contradictory_reset_options_are_usage_errors(
    shell: Shell, topic: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("tea,0\n")
    given = [each.replace("FILE", str(file)).replace("T", topic) for each in words.split()]
    result = shell.run("groups", "reset-offsets", topic, *given)
    assert result.exit_code == 2, result.output


def test_a_missing_partition_is_reported(shell: Shell, topic: str) -> None:
    result = shell.run("groups", "reset-offsets", topic, "-t", f"{topic}:0,7", "--to-latest")
    assert (result.exit_code, result.stderr) == (1, f"headwater: {topic} has no partition 7\n")


def test_offsets_of_a_group_with_members_cannot_be_reset(shell: Shell, topic: str) -> None:
    with Consumer(bootstrap_servers=shell.bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        result = shell.run("groups", "reset-offsets", topic, "--all-topics", "--to-latest")
        (row,) = shell.tells("groups", "describe", topic, "--state")
        offsets = shell.tells("groups", "describe", topic)
    assert result.exit_code == 1
    assert result.stderr == (
        f"headwater: group {topic} has a member; stop them before resetting offsets\n"
    )
    assert (row["state"], row["members"], row["assignor"]) == ("Stable", 1, "range")
    assert [each["host"] is not None for each in offsets] == [True, True]
    assert [each["lag"] for each in offsets] == [3, None]


def test_several_groups_are_described_and_lists_are_filtered(shell: Shell, topic: str) -> None:
    second = f"{topic}-2"
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        admin.alter_group_offsets(second, {TopicPartition(topic, 1): 5})
    both = shell.tells("groups", "describe", topic, second)
    assert [(row["group"], row["lag"]) for row in both] == [(topic, 3), (second, 0)]
    assert "GROUP" in shell.does("groups", "describe", topic, second)
    every = shell.tells("groups", "describe", "--all")
    assert {topic, second} <= {row["group"] for row in every}
    assert shell.run("groups", "describe").exit_code == 2
    missing = shell.run("groups", "describe", topic, "missing", "--json")
    assert (missing.exit_code, missing.stdout.count("\n"), missing.stderr.count("\n")) == (1, 1, 1)
    assert topic in {row["group"] for row in shell.tells("groups", "list", "--state", "Empty")}
    assert shell.tells("groups", "list", "--type", "consumer") == []


def test_committed_offsets_are_deleted(shell: Shell, topic: str) -> None:
    assert shell.run("groups", "delete-offsets", topic).exit_code == 2
    (row,) = shell.tells("groups", "delete-offsets", topic, "-t", f"{topic}:0")
    assert row == {"topic": topic, "partition": 0}
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        assert admin.list_group_offsets(topic) == {}


def test_a_partition_without_a_leader_has_no_lag() -> None:
    place = TopicPartition("tea", 0)
    (row,) = lag_rows("drinkers", {place: 5}, {}, {})
    assert (row["offset"], row["end"], row["lag"]) == (5, None, None)
