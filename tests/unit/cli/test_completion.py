"""Shell completion: names from the cluster, and nothing if it does not answer."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.client import Admin, Producer, TopicPartition
from headwater.testing import EmbeddedBroker

NOWHERE = "127.0.0.1:1"
PROGRAM = "from headwater.cli.entry import main; main()"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("tea", partitions=1)
            admin.create_topic("teapots", partitions=1)
            admin.create_topic("cups", partitions=1)
            admin.alter_group_offsets("drinkers", {TopicPartition("tea", 0): 0})
        with Producer(bootstrap_servers=servers, transactional_id="brewer") as producer:
            producer.init_transactions()
        yield servers


def completed(line: str, servers: str, **variables: str) -> list[str]:
    words = line.split(" ")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "_HEADWATER_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "HEADWATER_BOOTSTRAP": servers,
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("headwater topics describe te", ["tea", "teapots"]),
        ("headwater consume c", ["cups"]),
        ("headwater produce teap", ["teapots"]),
        ("headwater groups describe ", ["drinkers"]),
        ("headwater consume tea -g d", ["drinkers"]),
        ("headwater configs describe --topic c", ["cups"]),
        ("headwater transactions abort --id b", ["brewer"]),
    ],
)
def test_names_are_completed(servers: str, line: str, names: list[str]) -> None:
    assert completed(line, servers) == names


def test_completion_uses_the_bootstrap_option_of_the_line(servers: str) -> None:
    assert completed(f"headwater topics describe -b {servers} c", NOWHERE) == ["cups"]


def test_completion_without_a_broker_or_with_a_bad_file_offers_nothing(
    servers: str,
) -> None:
    assert completed("headwater topics describe t", NOWHERE) == []
    wrong = {"HEADWATER_COMMAND_CONFIG": "/missing"}
    assert completed("headwater topics describe t", servers, **wrong) == []
