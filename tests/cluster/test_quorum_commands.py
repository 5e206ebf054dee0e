"""`headwater cluster quorum` on a cluster of nodes with both roles."""

import asyncio
import json
import re
from collections.abc import Iterator

import pytest
from typer.testing import Result

from headwater.client import Admin, aio
from headwater.client.errors import VoterNotFound
from headwater.common.ids import TopicId
from headwater.testing import EmbeddedBroker, EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, timeout_s=TIMEOUT_S) as cluster:
        yield cluster


@pytest.fixture
def shell(cluster: EmbeddedCluster) -> Shell:
    return Shell(cluster.bootstrap_servers)


def test_status_and_replication_agree_with_the_admin_clients(
    cluster: EmbeddedCluster, shell: Shell
) -> None:
    async def ask() -> tuple[int, list[int]]:
        async with aio.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            found = await admin.describe_metadata_quorum()
            return found.leader_id, [each.replica_id for each in found.voters]

    leader, voters = asyncio.run(ask())
    [status] = shell.tells("cluster", "quorum", "describe", "--status")
    assert (status["leader"], status["voters"], status["observers"]) == (leader, voters, [])
    assert voters == [0, 1, 2]
    rows = shell.tells("cluster", "quorum", "describe", "--replication")
    assert [row["status"] for row in rows] == ["leader", "follower", "follower"]
    assert rows[0]["node"] == leader
    assert rows[0]["lag"] == 0
    table = shell.does("cluster", "quorum", "describe", "--replication")
    assert re.findall(r"CONTROLLER://127\.0\.0\.1:\d+", table)


def test_removed_voter_observes_until_it_is_added_again(shell: Shell) -> None:
    rows = shell.tells("cluster", "quorum", "describe", "--replication")
    removed = rows[-1]
    endpoints = removed["endpoints"]
    assert isinstance(endpoints, list)
    number = str(removed["node"])
    [gone] = shell.tells("cluster", "quorum", "remove-voter", "--id", number)
    assert gone == {"node": removed["node"], "directory": removed["directory"]}

    def roles() -> dict[object, object]:
        found = shell.tells("cluster", "quorum", "describe", "--replication")
        return {row["node"]: row["status"] for row in found}

    await_true(lambda: roles().get(removed["node"]) == "observer")
    add = ("cluster", "quorum", "add-voter", "--id", number, "--endpoint", endpoints[0])
    # Refused until the observer has caught up.
    await_true(lambda: shell.run(*add).exit_code == 0)
    assert roles()[removed["node"]] == "follower"
    again = shell.run(*add, "--directory-id", str(removed["directory"]))
    assert again.exit_code == 1
    assert "is already in the voter set" in again.stderr


def test_wrong_voters_are_refused(cluster: EmbeddedCluster, shell: Shell) -> None:
    unknown = str(TopicId(bytes(range(16))))
    remove = ("cluster", "quorum", "remove-voter", "--id")
    for words, code, message in (
        ((*remove, "7"), 2, "node 7 is not among the voters"),
        ((*remove, "1", "--directory-id", "x"), 2, "--directory-id x: not a directory id"),
        ((*remove, "1", "--directory-id", unknown), 1, "Cannot remove voter 1@"),
        (("cluster", "quorum", "add-voter", "--id", "7"), 2, "give --config, or --id"),
    ):
        result = shell.run(*words)
        assert (result.exit_code, message in result.output) == (code, True), result.output
    with (
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        pytest.raises(VoterNotFound),
    ):
        admin.remove_raft_voter(1, TopicId.parse(unknown))


def test_cluster_without_a_quorum_is_named() -> None:
    with EmbeddedBroker() as broker:
        result = Shell(broker.bootstrap_servers).run("cluster", "quorum", "describe")
    assert (result.exit_code, result.stderr) == (
        2,
        "headwater: the cluster has no KRaft quorum: it uses ZooKeeper or is a standalone broker\n",
    )


@pytest.mark.slow  # Many requests to the dead brokers time out.
def test_doctor_finds_a_quorum_without_a_leader(cluster: EmbeddedCluster, shell: Shell) -> None:
    """The last test of this cluster: two of three nodes are killed."""
    healthy = shell.run("doctor", "--json")
    assert "controller" not in checks_of(healthy)
    survivor, *others = cluster.brokers
    for each in others:
        each.kill()
    found = Shell(survivor.bootstrap_servers).run("doctor", "--json")
    problems = {
        each["check"]: each["problem"] for each in map(json.loads, found.stdout.split("\n")[:-1])
    }
    assert problems["controller"] == "no controller is active"


def checks_of(result: Result) -> set[str]:
    return {json.loads(line)["check"] for line in result.stdout.splitlines()}
