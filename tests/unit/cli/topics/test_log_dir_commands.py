"""`headwater partitions log-dirs` and `move-log-dir`, and the admin client's calls."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.client.admin.descriptions import ReplicaLogDir
from headwater.testing import EmbeddedBroker
from tests.cluster.cluster_clients import await_true
from tests.unit.cli.shell import Shell

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def directories(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.fixture
def broker(directories: list[str]) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        {"log.dirs": ",".join(directories), "log.segment.bytes": 1_048_576}
    ) as opened:
        yield opened


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


def produce(broker: EmbeddedBroker, count: int, size_bytes: int = 1_000) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("tea", b"%d " % number + bytes(size_bytes))
        producer.flush()


def numbers(broker: EmbeddedBroker, count: int) -> list[int]:
    found: list[int] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("tea", 0)])
        while len(found) < count:
            records = consumer.poll(60)
            assert records, f"only {len(found)} records came"
            found += [int((record.value or b"").split(b" ")[0]) for record in records]
    return found


def home_of(shell: Shell) -> str:
    (row,) = shell.tells("partitions", "log-dirs", "tea:0")
    return str(row["log_dir"])


def other(directories: list[str], home: str) -> str:
    (found,) = [each for each in directories if each != home]
    return found


def is_settled(shell: Shell, path: str) -> Callable[[], bool]:
    return lambda: (
        [(row["log_dir"], row["state"]) for row in shell.tells("partitions", "log-dirs", "tea:0")]
        == [(path, "here")]
    )


def test_a_partition_moves_between_log_directories_without_losing_records(
    broker: EmbeddedBroker, shell: Shell, directories: list[str]
) -> None:
    shell.does("topics", "create", "tea")
    produce(broker, 500)
    for _ in range(2):
        target = other(directories, home_of(shell))
        assert shell.tells("partitions", "move-log-dir", "tea:0", "--to", target) == [
            {"topic": "tea", "partition": 0, "broker": 0, "log_dir": target}
        ]
        produce(broker, 100)
        await_true(is_settled(shell, target))
        assert (Path(target) / "tea-0").is_dir()
    assert numbers(broker, 700) == [*range(500), *range(100), *range(100)]
    broker.restart()
    assert home_of(shell) == target
    assert numbers(broker, 700) == [*range(500), *range(100), *range(100)]


def test_a_throttled_move_is_shown_survives_a_kill_and_can_be_cancelled(
    broker: EmbeddedBroker, shell: Shell, directories: list[str]
) -> None:
    shell.does("topics", "create", "tea")
    produce(broker, 3_000)
    home = home_of(shell)
    target = other(directories, home)
    shell.does("configs", "alter", f"{RATE}=100000", "--broker", "0")
    shell.does("partitions", "move-log-dir", "tea:0", "--to", target)
    rows = shell.tells("partitions", "log-dirs", "tea:0")
    assert [(row["log_dir"], row["state"]) for row in rows] == [
        (home, "here"),
        (target, "moves here"),
    ]
    place = TopicPartition("tea", 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.describe_replica_log_dirs(0, [place])[place]
        assert (found.current, found.current_offset_lag, found.future) == (home, 0, target)
        assert 0 < found.future_offset_lag <= 3_000
        nothing = TopicPartition("coffee", 0)
        assert admin.describe_replica_log_dirs(0, [nothing]) == {nothing: ReplicaLogDir()}
    broker.kill()
    broker.start()
    assert len(shell.tells("partitions", "log-dirs", "tea:0")) == 2
    shell.does("partitions", "move-log-dir", "tea:0", "--to", home)
    await_true(is_settled(shell, home))
    assert numbers(broker, 3_000) == [*range(3_000)]


def test_a_partition_that_cannot_move_is_named(shell: Shell, directories: list[str]) -> None:
    shell.does("topics", "create", "tea")
    nowhere = shell.run("partitions", "move-log-dir", "tea:0", "--to", "/nowhere")
    assert nowhere.exit_code == 1
    nothing = shell.run("partitions", "move-log-dir", "tea:7", "--to", directories[0])
    assert nothing.exit_code == 1
