"""The admin client with brokers that fail, stall, send garbage or reject, for every API it uses.

Each call succeeds or raises a named error, and never hangs.
"""

import ast
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headwater.client.admin
from headwater.client import (
    Acl,
    Admin,
    ConfigResource,
    Producer,
    QuotaEntity,
    ScramUpsertion,
    TopicPartition,
)
from headwater.client.errors import KafkaError, KafkaTimeout
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import response_class
from headwater.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.error_responses import saying
from tests.simulation.fakes.faulty_proxy import FaultyProxy
from tests.simulation.fakes.mock_broker import Fate, Garbage, HangUp, Instead, MockBroker, Stall
from tests.simulation.fakes.mock_cluster import MockCluster

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the admin client, and an API that it uses."""

    api: ApiKey
    make: Callable[[Admin, str], object]

    def __str__(self) -> str:
        return self.api.name.lower()


def place(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


CALLS = [
    Call(api=ApiKey.METADATA, make=lambda admin, topic: topic in admin.list_topics()),
    Call(
        api=ApiKey.CREATE_TOPICS, make=lambda admin, topic: bool(admin.create_topic(f"{topic}-2"))
    ),
    Call(api=ApiKey.DELETE_TOPICS, make=lambda admin, topic: admin.delete_topics([topic])),
    Call(
        api=ApiKey.CREATE_PARTITIONS, make=lambda admin, topic: admin.create_partitions({topic: 2})
    ),
    Call(
        api=ApiKey.DELETE_RECORDS,
        make=lambda admin, topic: admin.delete_records({place(topic): 1})[place(topic)],
    ),
    Call(
        api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        make=lambda admin, topic: admin.alter_partition_reassignments({place(topic): [0]}),
    ),
    Call(
        api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        make=lambda admin, _: admin.list_partition_reassignments(),
    ),
    Call(
        api=ApiKey.ELECT_LEADERS,
        make=lambda admin, topic: len(admin.elect_leaders([place(topic)])),
    ),
    Call(
        api=ApiKey.DESCRIBE_CONFIGS,
        make=lambda admin, topic: len(
            admin.describe_configs([ConfigResource.topic(topic), ConfigResource.broker(0)])
        ),
    ),
    Call(
        api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        make=lambda admin, topic: admin.alter_configs(
            {ConfigResource.topic(topic): {"retention.ms": "5000"}}
        ),
    ),
    Call(
        api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        make=lambda admin, _: admin.alter_configs(
            {ConfigResource.broker(0): {"log.cleaner.threads": "1"}}, validate_only=True
        ),
    ),
    Call(
        api=ApiKey.DESCRIBE_CLIENT_QUOTAS,
        make=lambda admin, topic: admin.describe_client_quotas(QuotaEntity(user=topic)),
    ),
    Call(
        api=ApiKey.ALTER_CLIENT_QUOTAS,
        make=lambda admin, topic: admin.alter_client_quotas(
            {QuotaEntity(user=topic): {"producer_byte_rate": 1_000_000_000}}
        ),
    ),
    Call(
        api=ApiKey.LIST_GROUPS,
        make=lambda admin, topic: topic in [each.group_id for each in admin.list_groups()],
    ),
    Call(
        api=ApiKey.CONSUMER_GROUP_DESCRIBE,
        make=lambda admin, topic: admin.describe_groups([topic])[topic].state,
    ),
    Call(
        api=ApiKey.DESCRIBE_GROUPS,
        make=lambda admin, topic: admin.describe_groups([topic])[topic].state,
    ),
    Call(api=ApiKey.DELETE_GROUPS, make=lambda admin, topic: admin.delete_groups([topic])),
    Call(api=ApiKey.LEAVE_GROUP, make=lambda admin, topic: admin.remove_members(topic, [])),
    Call(
        api=ApiKey.OFFSET_FETCH,
        make=lambda admin, topic: admin.list_group_offsets(topic)[place(topic)].offset,
    ),
    Call(
        api=ApiKey.OFFSET_COMMIT,
        make=lambda admin, topic: admin.alter_group_offsets(topic, {place(topic): 0}),
    ),
    Call(
        api=ApiKey.OFFSET_DELETE,
        make=lambda admin, topic: admin.delete_group_offsets(topic, [place(topic)]),
    ),
    Call(
        api=ApiKey.LIST_OFFSETS,
        make=lambda admin, topic: admin.list_offsets({place(topic): -1})[place(topic)].offset,
    ),
    Call(
        api=ApiKey.FIND_COORDINATOR,
        make=lambda admin, topic: admin.describe_groups([topic])[topic].state,
    ),
    Call(api=ApiKey.DESCRIBE_CLUSTER, make=lambda admin, _: len(admin.describe_cluster().brokers)),
    Call(
        api=ApiKey.UPDATE_FEATURES,
        make=lambda admin, _: admin.update_features({"transaction.version": 2}, validate_only=True),
    ),
    Call(api=ApiKey.DESCRIBE_LOG_DIRS, make=lambda admin, _: len(admin.describe_log_dirs())),
    Call(
        api=ApiKey.ALTER_REPLICA_LOG_DIRS,
        make=lambda admin, topic: admin.alter_replica_log_dirs(0, {place(topic): "/nowhere"}),
    ),
    Call(api=ApiKey.DESCRIBE_ACLS, make=lambda admin, _: admin.describe_acls(Acl())),
    Call(api=ApiKey.CREATE_ACLS, make=lambda admin, _: admin.create_acls([Acl()])),
    Call(api=ApiKey.DELETE_ACLS, make=lambda admin, _: admin.delete_acls([Acl()])),
    Call(
        api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        make=lambda admin, topic: admin.describe_user_scram_credentials([topic]),
    ),
    Call(
        api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        make=lambda admin, topic: admin.alter_user_scram_credentials(
            [ScramUpsertion(user=topic, password="pw")]
        ),
    ),
    Call(
        api=ApiKey.LIST_TRANSACTIONS,
        make=lambda admin, topic: (
            topic in [each.transactional_id for each in admin.list_transactions()]
        ),
    ),
    Call(
        api=ApiKey.DESCRIBE_TRANSACTIONS,
        make=lambda admin, topic: admin.describe_transactions([topic])[topic].producer_epoch,
    ),
    Call(
        api=ApiKey.DESCRIBE_PRODUCERS,
        make=lambda admin, topic: len(admin.describe_producers([place(topic)])[place(topic)]),
    ),
    Call(
        api=ApiKey.INIT_PRODUCER_ID,
        make=lambda admin, topic: admin.fence_producers([topic])[topic].producer_id >= 0,
    ),
    Call(
        api=ApiKey.WRITE_TXN_MARKERS,
        make=lambda admin, topic: admin.abort_transaction(
            place(topic), producer_id=9, producer_epoch=0, coordinator_epoch=0
        ),
    ),
]


@pytest.fixture(scope="module")
def front() -> Iterator[FaultyProxy]:
    with FaultyProxy() as opened:
        yield opened


QUICK: dict[str, object] = {
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 5,
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 5,
}


def admin_at(servers: str, **settings: object) -> Admin:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Admin({"bootstrap.servers": servers, **QUICK, **given})


class Stage:
    """Topics with two records, a group and a transactional id, all with one name, per call."""

    def __init__(self, front: FaultyProxy, name: str) -> None:
        self.front = front
        self._name = name
        self._acts = 0

    def prepared(self) -> str:
        """A name for which all of them exist."""
        self._acts += 1
        topic = f"{self._name}-{self._acts}"
        servers = self.front.bootstrap_servers
        with admin_at(servers) as admin:
            admin.create_topic(topic, partitions=1)
            admin.alter_group_offsets(topic, {place(topic): 1})
        with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"green")
            producer.send(topic, b"black")
            producer.commit_transaction()
        return topic

    def outcome(self, call: Call, *fates: Fate, **settings: object) -> object:
        """The result of a call, or the class of its exception, when its API has these faults."""
        topic = self.prepared()
        with admin_at(self.front.bootstrap_servers, **settings) as admin:
            return self.outcome_of(call, admin, topic, *fates)

    def outcome_of(self, call: Call, admin: Admin, topic: str, *fates: Fate) -> object:
        self.front.script(call.api, *fates)
        try:
            return call.make(admin, topic)
        except KafkaError as error:
            raised = error
        finally:
            self.front.node.scripts[call.api].clear()
        assert not str(raised).endswith("None")
        return type(raised)


@pytest.fixture
def stage(front: FaultyProxy, request: pytest.FixtureRequest) -> Stage:
    name = str(request.node.name).partition("[")[2].rstrip("]")
    return Stage(front, f"{name}-{len(request.session.items)}-{request.node.originalname[5:25]}")


def test_every_api_of_the_admin_client_is_in_the_table() -> None:
    """Except ApiVersions, requested on every connection, and what needs a KRaft cluster."""
    imported: set[str] = set()
    for path in Path(headwater.client.admin.__path__[0]).glob("*_calls.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ImportFrom(module="headwater.protocol.messages", names=names):
                    imported |= {each.name for each in names}
                case ast.ImportFrom(module=str(module)) if "protocol.messages." in module:
                    imported.add(module.rpartition(".")[2])
    unspoken = {ApiKey[name.upper()] for name in imported} - {call.api for call in CALLS}
    # tests/cluster/test_quorum_commands.py has the other three.
    assert unspoken == {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        # Only for partitions with replicas outside the ISR.
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_lost_connections_and_garbage_are_retried(stage: Stage, call: Call) -> None:
    usual = stage.outcome(call)
    assert stage.outcome(call, HangUp()) == usual
    assert stage.outcome(call, Garbage()) == usual


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_stalled_request_is_retried(stage: Stage, call: Call) -> None:
    assert stage.outcome(call, Stall(), request_timeout_ms=3_000) == stage.outcome(call)


def check_codes(stage: Stage, call: Call, codes: list[ErrorCode]) -> None:
    topic = stage.prepared()
    limit_ms = 20_000
    with admin_at(stage.front.bootstrap_servers, default_api_timeout_ms=limit_ms) as admin:
        for code in codes:
            began_s = time.monotonic()
            stage.outcome_of(call, admin, topic, saying(code))
            assert time.monotonic() - began_s < TIMEOUT_S, code


SOME_CODES = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_retriable_error_is_retried_and_others_are_raised(stage: Stage, call: Call) -> None:
    check_codes(stage, call, SOME_CODES)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_every_error_code_is_retried_or_raised(stage: Stage, call: Call) -> None:
    check_codes(stage, call, [code for code in ErrorCode if code is not ErrorCode.NONE])


NONE_IS_AN_ANSWER = {
    ApiKey.METADATA,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.LIST_GROUPS,
    ApiKey.LEAVE_GROUP,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.LIST_TRANSACTIONS,
}
"""Where there may be nothing to list, or where a broker says only what did not succeed."""


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_an_item_missing_from_the_response_is_an_error(stage: Stage, call: Call) -> None:
    """A commit that is missing from the response may not have happened."""
    fate = Instead(lambda request: response_class(request.api)())
    outcome = stage.outcome(call, fate, default_api_timeout_ms=20_000)
    has_failed = isinstance(outcome, type) and issubclass(outcome, KafkaError)
    assert has_failed != (call.api in NONE_IS_AN_ANSWER), outcome


def test_without_a_broker_every_call_ends_at_its_timeout(front: FaultyProxy) -> None:
    with admin_at(front.bootstrap_servers, default_api_timeout_ms=50) as admin:
        front.stop()
        try:
            for call in CALLS:
                with pytest.raises(KafkaTimeout):
                    call.make(admin, "tea")
        finally:
            front.start()


def test_requests_go_to_the_new_controller_after_a_failure() -> None:
    """The old controller never answers NOT_CONTROLLER."""
    with MockCluster(nodes=2) as cluster:
        created: list[int] = []

        def create(broker: MockBroker, request: Any, _: int) -> Message:
            created.append(broker.node_id)
            (topic,) = request.topics
            return CreateTopicsResponse(topics=(CreatableTopicResult(name=topic.name),))

        cluster.handlers[ApiKey.CREATE_TOPICS] = create
        with admin_at(cluster.bootstrap_servers) as admin:
            admin.create_topic("tea")
            cluster.on_loop(lambda: setattr(cluster, "controller_id", 1))
            cluster.stop(0)
            admin.create_topic("coffee")
        assert created == [0, 1]
