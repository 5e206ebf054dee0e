"""An independent client of the REST API: kafka-bridge-client from PyPI, in its own process."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.testing import EmbeddedBroker
from tests.rest_server import TIMEOUT_S, RestServer

PROGRAM = """
import asyncio, base64, json, sys
from kafka_bridge_client import KafkaBridgeConsumer, KafkaBridgeProducer

url, group = sys.argv[1:]
producer = KafkaBridgeProducer(url, timeout=60)
assert producer.sends("tea", [{"key": "pot", "value": "green"}, {"key": "pot", "value": "black"}])
assert producer.send("tea", {"key": "pot", "value": b"\\x00white"}, binary=True)


async def main():
    consumer = KafkaBridgeConsumer(
        "tea",
        bootstrap_server=url,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_name="cup",
        client_timeout_seconds=60,
        sleep_interval_seconds=0,
        proxy="confluent",
    )
    found = []
    async with consumer:
        while len(found) < 3:
            for record in await consumer.poll_records(max_bytes=300000, timeout=3000):
                found.append(base64.b64decode(record["value"]).decode())
        await consumer.commit()
    print(json.dumps(found))


asyncio.run(main())
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def test_kafka_bridge_client_produces_consumes_and_commits(broker: EmbeddedBroker) -> None:
    with RestServer(broker.bootstrap_servers) as rest:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, rest.url, "drinkers"],
            capture_output=True,
            text=True,
            check=False,
            timeout=4 * TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr + rest.log_text
        assert json.loads(done.stdout) == ['"green"', '"black"', "\x00white"]
        lags = rest.get(f"{rest.cluster}/consumer-groups/drinkers/lags").json["data"]
        assert [(each["current_offset"], each["lag"]) for each in lags] == [(3, 0)]
