"""`headwater groups lag` against a real broker."""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
import typer

from headwater.cli.times import short_duration, short_duration_ms
from headwater.client import Admin, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with EmbeddedBroker() as broker:
        yield Shell(broker.bootstrap_servers)


@pytest.fixture
def group(shell: Shell) -> str:
    """Five records of the last five hours in a partition; the group has read three of them."""
    name = f"group-{uuid4().hex[:8]}"
    shell.does("topics", "create", name)
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=shell.bootstrap) as producer:
        for age_h in (5, 4, 3, 2, 1):
            producer.send(name, b"x", timestamp=now_ms - age_h * HOUR_MS)
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        admin.alter_group_offsets(name, {TopicPartition(name, 0): 3})
    return name


def test_lag_in_time_is_the_age_of_the_next_record(shell: Shell, group: str) -> None:
    (row,) = shell.tells("groups", "lag", group)
    lag_ms = row.pop("lag_ms")
    assert isinstance(lag_ms, int)
    assert 2 * HOUR_MS <= lag_ms < 2 * HOUR_MS + 5 * MINUTE_MS
    assert str(row.pop("time")).startswith("2h")
    assert row == {
        "group": group, "topic": group, "partition": 0, "offset": 3, "end": 5, "lag": 2, "lost": 0
    }  # fmt: skip


def test_limits_exit_with_3_and_name_the_partition(shell: Shell, group: str) -> None:
    for limits in (("--max-records", "2"), ("--max-time", "3h"), ("--max-records", "2")):
        assert shell.run("groups", "lag", group, *limits).exit_code == 0
    for limits in (("--max-records", "1"), ("--max-time", "1h30m"), ("--max-time", "PT5M")):
        result = shell.run("groups", "lag", group, *limits)
        assert result.exit_code == 3, result.output
        assert f"group {group} is 2 records and 2h" in result.stderr
        assert f"behind in {group}-0" in result.stderr


def test_group_that_has_read_everything_has_no_lag(shell: Shell, group: str) -> None:
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(group, 0): 5})
    (row,) = shell.tells("groups", "lag", group, "--max-records", "0", "--max-time", "0s")
    assert (row["lag"], row["lag_ms"]) == (0, 0)


def test_records_that_retention_deleted_are_counted_as_lost(shell: Shell, group: str) -> None:
    with Admin(bootstrap_servers=shell.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(group, 0): 1})
        admin.delete_records({TopicPartition(group, 0): 4})
    (row,) = shell.tells("groups", "lag", group)
    lag_ms = row["lag_ms"]
    assert isinstance(lag_ms, int)
    # The next record that the group can still read.
    assert HOUR_MS <= lag_ms < HOUR_MS + 5 * MINUTE_MS
    assert (row["lag"], row["lost"]) == (4, 3)


def test_all_groups_without_a_name(shell: Shell, group: str) -> None:
    rows = shell.tells("groups", "lag")
    assert group in {row["group"] for row in rows}


def test_watch_ends_when_a_limit_is_exceeded(shell: Shell, group: str) -> None:
    result = shell.run("groups", "lag", group, "--watch", "--interval", "0.1", "--max-time", "1h")
    assert result.exit_code == 3, result.output


def test_unknown_group_and_unreachable_broker_exit_with_1(shell: Shell) -> None:
    assert shell.run("groups", "lag", "no-such-group").exit_code == 1
    assert Shell("127.0.0.1:1").run("groups", "lag", "any").exit_code == 1


@pytest.mark.parametrize("text", ["", "5", "5 m", "m5", "5x", "-5m"])
def test_wrong_durations_are_usage_errors(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        short_duration_ms(text)


def test_durations() -> None:
    assert short_duration_ms("1h30m") == 90 * MINUTE_MS
    assert short_duration_ms("500ms") == 500
    assert [short_duration(each) for each in (0, 350, 42_000, 310_000, 3 * 24 * HOUR_MS)] == [
        "0s", "350ms", "42s", "5m 10s", "3d"
    ]  # fmt: skip
