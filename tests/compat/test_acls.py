"""ACLs as other clients see them: managed by Confluent's admin client, and enforced.

All clients are `User:ANONYMOUS` here, which is not a super user; so they may do what ACLs allow.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from headwater.client import Acl, Admin, Consumer, Operation, ResourceKind
from headwater.client import Producer as OurProducer
from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load

# Its own types do not say that an omitted filter field is None.
_acls = load("confluent_kafka.admin._acl")

TO_ALL = "User:*"


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    settings: dict[str, Value] = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    with checked_broker(settings) as broker:
        yield broker


@pytest.fixture
def theirs(guarded: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": guarded.bootstrap_servers})


@pytest.fixture
def ours(guarded: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=guarded.bootstrap_servers) as opened:
        yield opened


def binding(
    name: str,
    operation: AclOperation,
    *,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, TO_ALL, "*", operation, permission)


def every(name: str | None, pattern: ResourcePatternType) -> AclBindingFilter:
    made: AclBindingFilter = _acls.AclBindingFilter(
        ResourceType.TOPIC,
        name,
        pattern,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return made


def test_acls_are_created_described_and_deleted(theirs: AdminClient, topic: str) -> None:
    exact = binding(topic, AclOperation.READ)
    prefix = binding(topic[:9], AclOperation.DESCRIBE, pattern=ResourcePatternType.PREFIXED)
    for future in theirs.create_acls([exact, prefix]).values():
        future.result(TIMEOUT_S)
    matched = theirs.describe_acls(every(topic, ResourcePatternType.MATCH)).result(TIMEOUT_S)
    assert {(each.name, each.restype, each.operation) for each in matched} == {
        (exact.name, exact.restype, exact.operation),
        (prefix.name, prefix.restype, prefix.operation),
    }
    named = every(topic, ResourcePatternType.LITERAL)
    (removed,) = theirs.delete_acls([named]).values()
    assert [each.name for each in removed.result(TIMEOUT_S)] == [topic]
    assert theirs.describe_acls(named).result(TIMEOUT_S) == []
    (removed,) = theirs.delete_acls([every(None, ResourcePatternType.PREFIXED)]).values()
    assert len(removed.result(TIMEOUT_S)) == 1


def test_their_producer_gets_an_authorization_error(
    theirs: AdminClient, ours: Admin, guarded: EmbeddedBroker, topic: str
) -> None:
    ours.create_topic(topic)
    denial = binding(topic, AclOperation.WRITE, permission=AclPermissionType.DENY)
    for future in theirs.create_acls([denial, binding(topic, AclOperation.READ)]).values():
        future.result(TIMEOUT_S)
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": guarded.bootstrap_servers})
    producer.produce(
        topic,
        b"v",
        on_delivery=lambda error, _: errors.append("" if error is None else error.name()),
    )
    producer.flush(TIMEOUT_S)
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]
    assert f"operation=WRITE resource=Topic:{topic} acl=DENY WRITE to User:*" in (guarded.log_text)


def test_our_clients_get_an_authorization_error_and_continue_when_allowed(
    ours: Admin, guarded: EmbeddedBroker, topic: str
) -> None:
    ours.create_topic(topic)
    rule = Acl(
        resource_type=ResourceKind.TOPIC,
        resource_name=topic,
        principal="User:unknown",
        operation=Operation.ALL,
    )
    ours.create_acls([rule])
    servers = guarded.bootstrap_servers
    with OurProducer(bootstrap_servers=servers) as producer:
        with pytest.raises(KafkaError) as refused:
            producer.send(topic, b"v").result(TIMEOUT_S)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert topic not in ours.list_topics()
    ours.delete_acls([Acl(resource_name=topic)])
    with OurProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"v").result(TIMEOUT_S)
    with Consumer(
        bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in consumer.poll(TIMEOUT_S)] == [b"v"]


def test_deny_on_the_cluster_locks_out_its_creator(theirs: AdminClient, topic: str) -> None:
    """Until the broker is restarted with a super user, as in Kafka."""
    rule = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:admin",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    (created,) = theirs.create_acls([rule]).values()
    created.result(TIMEOUT_S)
    # It ignores an error of DescribeAcls.
    (refused,) = theirs.create_acls([binding(topic, AclOperation.READ)]).values()
    with pytest.raises(KafkaException) as failure:
        refused.result(TIMEOUT_S)
    assert failure.value.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"
