"""`headwater doctor` on a real broker."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.client import Admin, Producer, TopicPartition
from headwater.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        with Producer(bootstrap_servers=opened.bootstrap_servers) as producer:
            for _ in range(5):
                producer.send("tea", b"x")
        yield opened


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


def test_healthy_cluster_exits_with_0_and_a_group_behind_retention_with_1(
    broker: EmbeddedBroker,
) -> None:
    servers = broker.bootstrap_servers
    place = TopicPartition("tea", 0)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets("drinkers", {place: 1})
        healthy = run("--bootstrap", servers)
        disks = json_of(run("--bootstrap", servers, "--json"))
        # The disk of the machine that runs this may be nearly full.
        if disks and {each["check"] for each in disks} == {"free-space"}:
            pytest.skip("the disk is nearly full")
        assert (healthy.exit_code, healthy.stdout) == (0, "No problems found.\n"), healthy.output
        admin.delete_records({place: 3})
    sick = run("--bootstrap", servers)
    assert sick.exit_code == 1
    assert "group-behind-retention" in sick.stdout
    assert "2 records were deleted before the group read them" in sick.stdout
    assert "Fix: restart the consumer" in sick.stdout
    (found,) = json_of(run("--bootstrap", servers, "--json"))
    assert (found["check"], found["subjects"]) == ("group-behind-retention", ["drinkers in tea-0"])


def test_unreachable_cluster_exits_with_2() -> None:
    result = run("--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "no broker answers" in result.stderr


def test_problems_of_the_machine_are_shown_if_the_cluster_is_unreachable() -> None:
    result = run("--data", "/dev/shm", "--bootstrap", "127.0.0.1:1", "--json")
    assert result.exit_code == 2
    assert "file-system" in {each["check"] for each in json_of(result)}, result.output


def test_machine_is_checked_without_a_cluster(tmp_path: object) -> None:
    result = run("--data", str(tmp_path), "--json")
    assert result.exit_code in (0, 1), result.output
    assert all(each["fix"] for each in json_of(result))


def json_of(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
