"""With a broker dead before any group exists, clients learn why there is no coordinator.

`__consumer_offsets` and `__transaction_state` need three live brokers to be created, as in Kafka.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.client.errors import KafkaTimeout
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true
from tests.cluster.test_cluster_command import HEADWATER, consecutive_ports, running

REASON = (
    "cannot be created: replication factor 3 is not between 1 and the number of live brokers (2)"
)


@pytest.fixture
def one_of_three_is_dead(tmp_path: Path) -> Iterator[tuple[Clients, Path]]:
    port = consecutive_ports(3)
    command = [*HEADWATER, "cluster", "start", "--brokers", "3", "--dir", str(tmp_path)]
    with running([*command, "--base-port", str(port)]) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("headwater ready on ")
        described = json.loads((tmp_path / "cluster.json").read_text())
        clients = Clients(f"127.0.0.1:{port},127.0.0.1:{port + 1}")
        os.kill(described["brokers"][2]["pid"], signal.SIGKILL)
        await_true(lambda: len(clients.admin.list_topics(timeout=TIMEOUT_S).brokers) == 2)
        yield clients, tmp_path
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)


def test_reason_is_in_command_output_errors_and_log(
    one_of_three_is_dead: tuple[Clients, Path],
) -> None:
    clients, folder = one_of_three_is_dead
    topic = clients.new_topic(partitions=1, factor=2)
    at = ["--bootstrap", clients.servers]
    with running([*HEADWATER, "consume", topic, "--group", "g", *at]) as consuming:
        assert consuming.stderr is not None
        line = next(line for line in consuming.stderr if "Coordinator" in line)
        assert line.startswith(
            f"Coordinator not available: group=g reason=__consumer_offsets {REASON}"
        )
        consuming.send_signal(signal.SIGINT)
        consuming.communicate(timeout=TIMEOUT_S)
    with running([*HEADWATER, "groups", "describe", "g", *at]) as describing:
        assert describing.stderr is not None
        assert REASON in next(line for line in describing.stderr if "Coordinator" in line)
    producer = Producer(
        {"bootstrap.servers": clients.servers, "transactional.id": "t", "max.block.ms": 2_000}
    )
    with producer, pytest.raises(KafkaTimeout, match=re.escape(f"__transaction_state {REASON}")):
        producer.init_transactions()
    logged = "".join((folder / f"broker-{node_id}.log").read_text() for node_id in (0, 1))
    for internal in ("__consumer_offsets", "__transaction_state"):
        lines = [each for each in logged.splitlines() if f"topic={internal} reason=" in each]
        # Each broker logs it at most once within the interval.
        assert 1 <= len(lines) <= 2, lines
        assert f"Coordinator not available: topic={internal} reason={internal} {REASON}" in lines[0]
