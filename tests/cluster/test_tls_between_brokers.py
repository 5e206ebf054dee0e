"""Three brokers that connect to each other over TLS only, with client certificates."""

from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, Producer
from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedCluster
from tests.certificates import Authority
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.compat.brokers import scrape

pytestmark = pytest.mark.slow

TOPIC = "orders"


def test_brokers_replicate_over_tls_and_a_killed_one_returns(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.identity("broker", hosts=["127.0.0.1"])
    stores = {
        "ssl.keystore.location": str(own.write_pem(tmp_path / "broker.pem")),
        "ssl.truststore.location": str(authority.write(tmp_path / "authority.pem")),
    }
    settings: dict[str, Value] = {
        **stores,
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "min.insync.replicas": 2,
        "headwater.metrics.listener": "127.0.0.1:0",
    }
    with EmbeddedCluster(3, settings=settings, timeout_s=TIMEOUT_S) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SSL",
            **stores,
        }
        with Admin(client) as admin, Producer({**client, "acks": "all"}) as producer:
            admin.create_topic(TOPIC, partitions=3, replication_factor=3)
            send(producer, range(100))
            cluster.brokers[0].kill()
            send(producer, range(100, 200))
            cluster.brokers[0].start()

            def all_are_in_sync() -> bool:
                found = admin.describe_topics([TOPIC])[TOPIC]
                return all(len(each.isr) == 3 for each in found.partitions)

            await_true(all_are_in_sync)
            send(producer, range(200, 300))
        with Consumer(
            {**client, "group.id": "readers", "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.subscribe([TOPIC])
            found: list[int] = []
            while len(found) < 300:
                found += [int(record.value or b"") for record in consumer.poll(TIMEOUT_S)]
        assert sorted(found) == list(range(300))
        for broker in cluster.brokers:
            assert "Traceback" not in broker.log_text, broker.log_text
            name = 'kafka_server_socketserver_failed_handshakes_total{listener="SSL"}'
            assert scrape(broker)[name] == 0, broker.log_text


def send(producer: Producer, numbers: range) -> None:
    sent = [producer.send(TOPIC, str(number).encode()) for number in numbers]
    for future in sent:
        future.result(TIMEOUT_S)
