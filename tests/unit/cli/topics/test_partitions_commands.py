"""`headwater partitions`: reassignment plans, their progress, and leader elections."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from headwater.cli.topics.reassignment_plans import (
    current_plan,
    plan_text,
    progress_rows,
    proposed_plan,
    read_plan,
)
from headwater.client.admin.descriptions import Reassignment, TopicDescription
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_metadata import BrokerNode, PartitionView
from headwater.common.ids import TopicPartition
from headwater.network.system_clock import SystemRandom
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


def tea(*replicas: tuple[int, ...]) -> TopicDescription:
    return TopicDescription(
        name="tea",
        partitions=tuple(
            PartitionView(
                partition=number, leader_id=each[0], leader_epoch=0, replicas=each, isr=each
            )
            for number, each in enumerate(replicas)
        ),
    )


def nodes(**racks: str) -> list[BrokerNode]:
    return [
        BrokerNode(node_id=number, address=BootstrapAddress("x", 1), rack=rack)
        for number, rack in enumerate(racks.values())
    ]


def test_a_plan_is_executed_and_verified(shell: Shell, tmp_path: Path) -> None:
    shell.does("topics", "create", "planned", "-p", "2")
    file = tmp_path / "plan.json"
    file.write_text(shell.does("partitions", "plan", "planned", "--brokers", "0"))
    assert shell.does("partitions", "plan", "planned", "--current") == file.read_text()
    assert json.loads(file.read_text())["version"] == 1
    begun = shell.tells("partitions", "reassign", "--file", str(file), "--wait")
    assert [(row["partition"], row["replicas"]) for row in begun] == [(0, [0]), (1, [0])]
    rows = shell.tells("partitions", "verify", str(file))
    assert [row["state"] for row in rows] == ["done", "done"]
    file.write_text(file.read_text().replace("[0]", "[7]", 1))
    unlike = shell.run("partitions", "verify", str(file), "--json")
    assert unlike.exit_code == 1
    assert [json.loads(line)["state"] for line in unlike.stdout.splitlines()] == [
        "elsewhere",
        "done",
    ]
    assert shell.run("partitions", "plan", "planned", "--brokers", "7").exit_code == 1
    calling_off = shell.run("partitions", "reassign", "--file", str(file), "--cancel")
    assert calling_off.exit_code == 1
    assert calling_off.stderr.count("\n") == 2


@pytest.mark.parametrize(
    "words",
    [
        "reassign",
        "reassign tea:0",
        "reassign tea:0 --to x",
        "reassign tea:0 --to 1 --cancel",
        "reassign tea:0 --file FILE",
        "reassign --file FILE",
        "reassign --file FILE --to 1",
        "reassign --file /missing",
        "verify FILE",
        "elect-leader",
        "elect-leader tea:0 --all",
    ],
)
def test_contradictory_reassignment_options_are_usage_errors(
    shell: Shell, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"partitions": [{"topic": "tea", "partition": "0", "replicas": [1]}]}')
    given = [each.replace("FILE", str(file)) for each in words.split()]
    assert shell.run("partitions", *given).exit_code == 2


def test_preferred_leaders_are_elected_for_all_partitions(shell: Shell) -> None:
    shell.does("topics", "create", "led")
    # For partitions that need no election, Kafka returns nothing.
    assert all(
        row["outcome"] == "elected" for row in shell.tells("partitions", "elect-leader", "--all")
    )


def test_a_proposed_plan_keeps_the_replication_factor_and_uses_every_rack() -> None:
    brokers = nodes(a="east", b="east", c="west", d="west")
    racks = {each.node_id: each.rack for each in brokers}
    plan = proposed_plan([tea((9, 8), (9, 8), (9, 8), (9, 8))], brokers, SystemRandom())
    assert all(len({racks[each] for each in replicas}) == 2 for replicas in plan.values())
    assert Counter(replicas[0] for replicas in plan.values()) == Counter([0, 1, 2, 3])


def test_a_plan_with_more_replicas_than_brokers_is_rejected() -> None:
    with pytest.raises(typer.BadParameter, match="tea has replication factor 2, but only 1"):
        proposed_plan([tea((1, 2))], nodes(a="east"), SystemRandom())


def test_partitions_of_a_plan_are_done_moving_or_elsewhere() -> None:
    places = [TopicPartition("tea", number) for number in range(4)]
    now = {places[0]: (1, 2), places[1]: (1, 2, 3), places[2]: (2, 1)}
    move = Reassignment(replicas=(1, 2, 3), adding_replicas=(3,), removing_replicas=(1,))
    rows = progress_rows(dict.fromkeys(places, (1, 2)), now, {places[1]: move})
    assert [row["state"] for row in rows] == ["done", "moving", "elsewhere", "elsewhere"]


def test_a_printed_plan_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = current_plan([tea((1, 2), (2, 3))])
    file.write_text(plan_text(plan))
    assert read_plan(file) == {place: list(replicas) for place, replicas in plan.items()}
