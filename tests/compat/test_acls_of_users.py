"""ACLs of authenticated users: a reader, a writer and an administrator."""

from collections.abc import Iterator

import pytest

from headwater.client import Acl, Admin, Consumer, Operation, PatternType, Producer, ResourceKind
from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load

confluent = load("confluent_kafka")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("admin", "writer", "reader", "eve")
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f"{MODULE} required " + " ".join(f'user_{user}="{user}-secret"' for user in USERS) + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    with checked_broker(SETTINGS) as broker:
        yield broker


def login(broker: EmbeddedBroker, user: str) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


@pytest.fixture
def shop(guarded: EmbeddedBroker, topic: str) -> EmbeddedBroker:
    """A topic, with a user who may write to it and one who may read from it."""
    with Admin(login(guarded, "admin")) as admin:
        admin.create_topic(topic)
        admin.create_acls(
            [
                rule(topic, "User:writer", Operation.WRITE),
                rule(topic, "User:reader", Operation.READ, prefix=topic[:8]),
                Acl(
                    resource_type=ResourceKind.GROUP,
                    resource_name="*",
                    principal="User:reader",
                    operation=Operation.READ,
                ),
            ]
        )
    return guarded


def rule(topic: str, principal: str, operation: Operation, *, prefix: str | None = None) -> Acl:
    return Acl(
        resource_type=ResourceKind.TOPIC,
        resource_name=topic if prefix is None else prefix,
        pattern_type=PatternType.LITERAL if prefix is None else PatternType.PREFIXED,
        principal=principal,
        operation=operation,
    )


def code_of_write(broker: EmbeddedBroker, user: str, topic: str) -> ErrorCode:
    with Producer(login(broker, user)) as producer:
        try:
            producer.send(topic, b"tea").result(TIMEOUT_S)
        except KafkaError as error:
            return error.code
    return ErrorCode.NONE


def test_each_user_may_do_what_acls_allow_and_nothing_else(
    shop: EmbeddedBroker, topic: str
) -> None:
    assert code_of_write(shop, "writer", topic) is ErrorCode.NONE
    for user in ("reader", "eve"):
        code = code_of_write(shop, user, topic)
        # Without IdempotentWrite the error is that of InitProducerId.
        assert code in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
    reading = {**login(shop, "reader"), "group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(reading) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in consumer.poll(TIMEOUT_S)] == [b"tea"]
    with Admin(login(shop, "eve")) as admin:
        assert topic not in admin.list_topics()
        with pytest.raises(KafkaError) as refused:
            admin.create_acls([rule(topic, "User:eve", Operation.ALL)])
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_their_consumer_gets_an_error_that_names_the_resource(
    shop: EmbeddedBroker, topic: str
) -> None:
    consumer = confluent.Consumer({**login(shop, "writer"), "group.id": topic})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().name() == "GROUP_AUTHORIZATION_FAILED"
    finally:
        consumer.close()


def test_transaction_needs_write_on_its_transactional_id(shop: EmbeddedBroker, topic: str) -> None:
    """TX-4"""
    settings = {**login(shop, "writer"), "transactional.id": f"tx-{topic}"}
    with Producer(settings) as producer, pytest.raises(KafkaError) as refused:
        producer.init_transactions()
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with Admin(login(shop, "admin")) as admin:
        admin.create_acls(
            [
                Acl(
                    resource_type=ResourceKind.TRANSACTIONAL_ID,
                    resource_name="tx-",
                    pattern_type=PatternType.PREFIXED,
                    principal="User:writer",
                    operation=Operation.WRITE,
                )
            ]
        )
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"tea")
        producer.commit_transaction()
