"""ACLs compared with Apache Kafka: the same ACLs, the same requests, the same denials.

Every client is `User:ANONYMOUS`, so hosts distinguish them: 127.0.0.1, which Kafka's own broker
uses, is allowed everything, and 127.0.0.2 only what ACLs allow.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from headwater.client import Acl, Admin, Operation, PatternType, Permission, ResourceKind
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.security.authorization.authorizer import CLUSTER
from tests.peers.apache_kafka import ApacheKafka, run_class
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_3_9, KAFKA_4_1
from tests.peers.raw_client import RawClient, newest_version
from tests.peers.test_zookeeper_layout import headwater_on, kafka_on
from tests.unit.broker.handlers.security.test_acl_operations import ROWS, Row
from tests.unit.broker.requests.test_api_routes import BY_KEY, errors_in
from tests.zookeeper_server import real_zookeeper

ADMINS_HOST: Final = "127.0.0.1"
CLIENTS_HOST: Final = "127.0.0.2"
TIMEOUT_S: Final = 60
ARRIVAL_S: Final = 5
ROUNDS: Final = 25
WITH_RIGHTS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Kafka's broker could not even register before there is a rule that lets it.
    "allow.everyone.if.no.acl.found": "true",
}
NAMED_KINDS: Final = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID)
NAMES: Final = {
    ResourceKind.TOPIC: "t",
    ResourceKind.GROUP: "g",
    ResourceKind.TRANSACTIONAL_ID: "x",
    ResourceKind.CLUSTER: CLUSTER.name,
}
REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
FLOOR: Final = [
    Acl(
        resource_type=kind,
        resource_name=name,
        principal="User:ANONYMOUS",
        host=ADMINS_HOST,
        operation=Operation.ALL,
    )
    for kind, name in [*((kind, "*") for kind in NAMED_KINDS), CLUSTER]
]
"""There is a rule about everything, so that silence is a no."""

# It would change what later questions are about.
_LEFT_OUT: Final = (
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_TOPICS,
    # Both sides, or one of them, have the request wait.
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.JOIN_GROUP,
    # Kafka serves them to brokers on other listeners, or not without a receiver.
    ApiKey.UNREGISTER_BROKER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
)
ASKED: Final = [row for row in ROWS if row.key in BY_KEY and row.key not in _LEFT_OUT]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadwaterBroker]:
    with HeadwaterBroker(tmp_path_factory.mktemp("ours"), WITH_RIGHTS) as broker:
        yield broker


def one_rule(rng: random.Random) -> Acl:
    kind = rng.choice([*NAMED_KINDS, ResourceKind.TOPIC, ResourceKind.CLUSTER])
    is_prefix = kind is not ResourceKind.CLUSTER and rng.random() < 0.3
    name = NAMES[kind]
    if kind is not ResourceKind.CLUSTER and not is_prefix:
        name = rng.choice([name, name, name, "*", "other"])
    return Acl(
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=rng.choice(["User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:other"]),
        host=CLIENTS_HOST,
        operation=rng.choice([each for each in Operation if each >= Operation.ALL]),
        permission_type=rng.choice([Permission.ALLOW] * 4 + [Permission.DENY]),
    )


def install(admin: Admin, rules: list[Acl]) -> None:
    """Set exactly these ACLs, and wait until the broker knows them."""
    admin.delete_acls([Acl(host=CLIENTS_HOST)])
    if rules:
        admin.create_acls(rules)
    until = time.monotonic() + TIMEOUT_S
    while set(admin.describe_acls(Acl(host=CLIENTS_HOST))) != set(rules):
        assert time.monotonic() < until, "the rules do not arrive"


def refusals(client: RawClient, row: Row) -> set[object]:
    version = newest_version(row.asked) if row.version is None else row.version
    return set(errors_in(client.ask(row.asked, version))) & REFUSALS


def test_denials_are_those_of_kafka(ours: HeadwaterBroker, tmp_path: Path) -> None:
    """Some hundreds of requests with random ACLs; a seed replays them."""
    rng = random.Random(20_261)
    with (
        ApacheKafka(tmp_path, settings=WITH_RIGHTS) as kafka,
        Admin(bootstrap_servers=kafka.bootstrap_servers) as their_admin,
        Admin(bootstrap_servers=ours.bootstrap_servers) as our_admin,
        RawClient(kafka.bootstrap_servers, source=CLIENTS_HOST) as at_theirs,
        RawClient(ours.bootstrap_servers, source=CLIENTS_HOST) as at_ours,
    ):
        for admin in (their_admin, our_admin):
            admin.create_topic("t", partitions=4)
            admin.create_acls(FLOOR)
        different: list[str] = []
        for _ in range(ROUNDS):
            rules = list(dict.fromkeys(one_rule(rng) for _ in range(rng.randrange(1, 7))))
            install(their_admin, rules)
            install(our_admin, rules)
            left, until = ASKED, time.monotonic() + ARRIVAL_S
            # Kafka's controller and its broker apply ACLs independently, at different times.
            while left and time.monotonic() < until:
                left = [
                    each for each in left if refusals(at_theirs, each) != refusals(at_ours, each)
                ]
            words = [str(each) for each in rules]
            different += [
                f"{each.key.name} {refusals(at_theirs, each)} {refusals(at_ours, each)}: {words}"
                for each in left
            ]
    assert not different, "\n".join(different)
    assert ROUNDS * len(ASKED) > 500


def test_kafka_acls_adds_lists_and_removes(ours: HeadwaterBroker) -> None:
    """Kafka's own tool, unmodified."""

    def run(*arguments: str) -> str:
        servers = ("--bootstrap-server", ours.bootstrap_servers)
        return run_class(KAFKA_4_1, "org.apache.kafka.tools.AclCommand", *servers, *arguments)

    who = ("--allow-principal", "User:tool")
    added = run("--add", *who, "--consumer", "--topic", "tool-topic", "--group", "tool-group")
    assert "Adding ACLs for resource" in added
    prefixed = ("--topic", "tool-", "--resource-pattern-type", "prefixed")
    run("--add", "--deny-principal", "User:eve", "--operation", "Write", *prefixed)
    listed = run("--list", "--topic", "tool-topic", "--resource-pattern-type", "match")
    assert "(principal=User:tool, host=*, operation=READ, permissionType=ALLOW)" in listed
    assert "(principal=User:eve, host=*, operation=WRITE, permissionType=DENY)" in listed
    run("--remove", "--force", *who, "--consumer", "--topic", "tool-topic", "--group", "tool-group")
    run("--remove", "--force", *prefixed)
    assert "User:tool" not in run("--list")
    assert "User:eve" not in run("--list")


@pytest.mark.skipif(KAFKA_3_9.absence() is not None, reason="Kafka 3.9 is not there")
def test_acls_are_exchanged_with_kafka_3_9_in_both_directions(tmp_path: Path) -> None:
    """Kafka 3.9 with its ZooKeeper authorizer and Headwater alternate."""
    rights = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    reading = Acl(
        resource_type=ResourceKind.TOPIC,
        resource_name="orders",
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    denial = Acl(
        resource_type=ResourceKind.TRANSACTIONAL_ID,
        resource_name="pay-",
        pattern_type=PatternType.PREFIXED,
        principal="User:eve",
        host="192.0.2.1",
        operation=Operation.DESCRIBE_CONFIGS,
        permission_type=Permission.DENY,
    )
    ours, theirs = partial(headwater_on, data=tmp_path / "data"), partial(kafka_on, folder=tmp_path)
    with real_zookeeper() as server:
        with ours(server.connect, more=rights) as at, Admin(bootstrap_servers=at) as admin:
            admin.create_acls([reading, denial])
        with theirs(server.connect, more=rights) as at, Admin(bootstrap_servers=at) as admin:
            assert set(admin.describe_acls()) == {reading, denial}
            admin.delete_acls([denial])
            admin.create_acls([replace(reading, principal="User:bob")])
        with ours(server.connect, more=rights) as at, Admin(bootstrap_servers=at) as admin:
            found = {each.principal for each in admin.describe_acls()}
            assert found == {"User:alice", "User:bob"}
            # A node that Kafka has written has its version, and is written on.
            removed = admin.delete_acls([Acl(resource_name="orders")])
            assert sum(map(len, removed.values())) == 2
            until = time.monotonic() + TIMEOUT_S
            while admin.describe_acls():
                assert time.monotonic() < until, "removed rules are still told"
