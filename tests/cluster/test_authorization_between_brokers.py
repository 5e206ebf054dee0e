"""Three brokers with ACLs: brokers are super users, clients have their own principals."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from headwater.client import Acl, Admin, Consumer, Operation, PatternType, Producer, ResourceKind
from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.common.settings.setting_types import Value
from headwater.testing.embedded_broker import EmbeddedBroker
from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.zookeeper_server import real_zookeeper

pytestmark = pytest.mark.slow

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS: dict[str, Value] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="broker" password="broker-secret" '
        'user_broker="broker-secret" user_alice="alice-secret";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker",
    "offsets.topic.num.partitions": 3,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[EmbeddedBroker]]:
    with real_zookeeper() as zookeeper:
        started = [
            EmbeddedBroker(
                {**SETTINGS, "node.id": number, "zookeeper.connect": zookeeper.connect},
                timeout_s=TIMEOUT_S,
            )
            for number in range(3)
        ]
        try:
            with ThreadPoolExecutor(3) as together:
                list(together.map(EmbeddedBroker.start, started))
            yield started
            for broker in started:
                assert "Traceback" not in broker.log_text, broker.log_text
                # Brokers are authorized for everything among themselves.
                assert "denied: principal=User:broker" not in broker.log_text
        finally:
            for broker in started:
                broker.close()


def login(servers: str, user: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def rules_for(prefix: str) -> list[Acl]:
    return [
        Acl(
            resource_type=kind,
            resource_name=prefix,
            pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            operation=Operation.ALL,
        )
        for kind in (ResourceKind.TOPIC, ResourceKind.GROUP)
    ]


def code_of_creation(broker: EmbeddedBroker, topic: str) -> ErrorCode:
    with Admin(login(broker.bootstrap_servers, "alice")) as admin:
        try:
            admin.create_topic(topic, partitions=1, replication_factor=3)
        except KafkaError as error:
            return error.code
    return ErrorCode.NONE


def test_client_has_its_own_acls_at_every_broker(brokers: list[EmbeddedBroker]) -> None:
    """Two of three brokers forward its requests to the controller, which may do more than the
    client.
    """
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    prefix = f"alice-{uuid.uuid4().hex[:8]}-"
    for number, broker in enumerate(brokers):
        code = code_of_creation(broker, f"{prefix}{number}")
        assert code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Admin(login(brokers[1].bootstrap_servers, "broker")) as admin:
        admin.create_acls(rules_for(prefix))
    for number, broker in enumerate(brokers):

        def is_made(broker: EmbeddedBroker, name: str) -> bool:
            return code_of_creation(broker, name) in (
                ErrorCode.NONE,
                ErrorCode.TOPIC_ALREADY_EXISTS,
            )

        await_true(partial(is_made, broker, f"{prefix}{number}"))
    with Producer({**login(servers, "alice"), "acks": "all"}) as producer:
        for number in range(9):
            producer.send(f"{prefix}{number % 3}", b"tea").result(TIMEOUT_S)
    reading = {**login(servers, "alice"), "group.id": prefix, "auto.offset.reset": "earliest"}
    found = 0
    with Consumer(reading) as consumer:
        consumer.subscribe([f"{prefix}{number}" for number in range(3)])

        def is_read() -> bool:
            nonlocal found
            found += len(consumer.poll(1))
            return found >= 9

        await_true(is_read)


def test_killed_broker_has_the_acls_after_a_restart(brokers: list[EmbeddedBroker]) -> None:
    prefix = f"alice-{uuid.uuid4().hex[:8]}-"
    with Admin(login(brokers[0].bootstrap_servers, "broker")) as admin:
        admin.create_acls(rules_for(prefix))
        brokers[2].kill()
        brokers[2].start()
        # The system has assigned another port.
        (again,) = [each for each in admin.describe_cluster().brokers if each.node_id == 2]
    with Admin(login(str(again.address), "broker")) as admin:
        found = admin.describe_acls(Acl(resource_name=prefix))
        assert {each.resource_type for each in found} == {ResourceKind.TOPIC, ResourceKind.GROUP}
