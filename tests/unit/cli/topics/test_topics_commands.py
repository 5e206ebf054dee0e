"""`headwater topics` against a real broker."""

from collections.abc import Iterator

import pytest

from headwater.cli.topics.topics import is_wanted
from headwater.client.network.cluster_metadata import PartitionView
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with EmbeddedBroker() as broker:
        yield Shell(broker.bootstrap_servers)


def test_delete_if_exists_ignores_a_missing_topic(shell: Shell) -> None:
    shell.does("topics", "create", "tea")
    assert shell.run("topics", "delete", "cups").exit_code == 1
    deleted = shell.tells("topics", "delete", "tea", "cups", "--if-exists")
    assert deleted == [{"topic": "tea"}]
    assert shell.tells("topics", "delete", "tea", "--if-exists") == []


def test_describe_filters_under_replicated_and_unavailable_partitions(shell: Shell) -> None:
    shell.does("topics", "create", "well")
    assert len(shell.tells("topics", "describe", "well")) == 1
    assert shell.tells("topics", "describe", "well", "--under-replicated", "--unavailable") == []


@pytest.mark.parametrize(
    ("leader_id", "isr", "troubles"),
    [
        (1, (1, 2), []),
        (1, (1,), ["under_replicated"]),
        (-1, (1,), ["under_replicated", "unavailable"]),
        (-1, (1, 2), ["unavailable"]),
    ],
)
def test_filters_match_under_replicated_and_unavailable_partitions(
    leader_id: int, isr: tuple[int, ...], troubles: list[str]
) -> None:
    each = PartitionView(partition=0, leader_id=leader_id, leader_epoch=0, replicas=(1, 2), isr=isr)
    assert is_wanted(each, under_replicated=False, unavailable=False)
    assert is_wanted(each, under_replicated=True, unavailable=False) == (
        "under_replicated" in troubles
    )
    assert is_wanted(each, under_replicated=False, unavailable=True) == ("unavailable" in troubles)
    assert is_wanted(each, under_replicated=True, unavailable=True) == bool(troubles)
