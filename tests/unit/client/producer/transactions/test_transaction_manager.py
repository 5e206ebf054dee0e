"""Transactions with a scripted coordinator, in both protocol versions."""

import pytest

from headwater.client import ConsumerGroupMetadata, TopicPartition
from headwater.client.errors import (
    IllegalGeneration,
    IllegalState,
    KafkaError,
    KafkaTimeout,
    ProducerFenced,
    TransactionAbortable,
)
from headwater.client.network.cluster_client import TRANSACTION
from headwater.client.producer.transactions.transaction_state import (
    TRANSITIONS,
    TransactionPhase,
    TransactionState,
)
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.end_txn import EndTxnResponse
from headwater.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headwater.protocol.messages.init_producer_id import InitProducerIdResponse
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.simulation.fakes.mock_broker import TIMEOUT_S, Fate, Garbage, HangUp, Instead, Stall
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer
from tests.unit.client.producer.test_producer_faults import enough_for, refusing

PLACE = TopicPartition("tea", 0)


@pytest.fixture(params=[1, 2], ids=["first version", "second version"])
def cluster(request: pytest.FixtureRequest) -> MockCluster:
    features = {"transaction.version": request.param}
    return MockCluster(topics={"tea": 2, "coffee": 1}, features=features)


def ready(open_producer: OpenProducer, cluster: MockCluster, **settings: object) -> Face:
    producer = open_producer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id="till",
        **settings,
    )
    producer.do("init_transactions")
    return producer


def is_second(cluster: MockCluster) -> bool:
    return cluster.requests(ApiKey.ADD_PARTITIONS_TO_TXN) == []


def test_records_of_a_transaction_are_marked_and_committed(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        for _ in range(2):
            producer.do("begin_transaction")
            producer.send("tea", b"green", partition=0)
            producer.send("tea", b"black", partition=1)
            producer.do("commit_transaction")
        headers = cluster.topics["tea"][0].headers
        assert [header.is_transactional for header in headers] == [True, True]
        ends = [what for what, _, _ in cluster.transactions.diary]
        assert ends == ["commit", "commit"]
        if is_second(cluster):
            # Every transaction has its own epoch, and its sequences start at 0.
            assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (1, 0)]
        else:
            assert cluster.transactions.diary[0][1] == [("tea", 0), ("tea", 1)]
            assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (0, 1)]


def test_a_record_is_acknowledged_before_its_transaction_ends(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    """In the first version its partition is added before the record is sent."""
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        assert producer.result(producer.send("tea", b"green", partition=0)).offset == 0
        assert producer.result(producer.send("tea", b"black", partition=1)).offset == 0
        producer.do("commit_transaction")


def test_an_abort_drops_unsent_records(open_producer: OpenProducer, cluster: MockCluster) -> None:
    with cluster:
        producer = ready(open_producer, cluster, linger_ms=10_000)
        producer.do("begin_transaction")
        gone = producer.send("tea", b"green", partition=0)
        producer.do("flush", TIMEOUT_S)
        dropped = producer.send("tea", b"black", partition=0)
        producer.do("abort_transaction")
        assert gone.exception(0) is None
        assert isinstance(dropped.exception(0), TransactionAbortable)
        assert [what for what, _, _ in cluster.transactions.diary] == ["abort"]
        producer.do("begin_transaction")
        producer.send("tea", b"white", partition=0)
        producer.do("commit_transaction")
        values = [record.value for record in cluster.topics["tea"][0].records]
        assert values == [b"green", b"white"]


def test_begin_can_be_repeated_if_no_coordinator_was_found(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    unknown = Coordinator(
        key="till", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, port=-1
    )
    with cluster:
        producer = ready(open_producer, cluster, max_block_ms=2_000)
        producer.engine.cluster.forget_coordinator(TRANSACTION, "till")
        fates = [Instead(lambda _: FindCoordinatorResponse(coordinators=(unknown,)))] * 10_000
        cluster.script(ApiKey.FIND_COORDINATOR, *fates)
        with pytest.raises(KafkaTimeout, match="COORDINATOR_NOT_AVAILABLE"):
            producer.do("begin_transaction")
        for broker in cluster.brokers:
            broker.scripts[ApiKey.FIND_COORDINATOR].clear()
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        producer.do("commit_transaction")
        assert [what for what, _, _ in cluster.transactions.diary] == ["commit"]


def test_an_empty_transaction_sends_no_request(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        producer.do("commit_transaction")
        producer.do("begin_transaction")
        producer.do("abort_transaction")
        assert cluster.requests(ApiKey.END_TXN) == []


def test_offsets_are_part_of_the_transaction(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        group = ConsumerGroupMetadata(group_id="drinkers", generation_id=3, member_id="m")
        producer.do("send_offsets_to_transaction", {PLACE: 42}, group)
        producer.do("commit_transaction")
        assert cluster.transactions.diary == [("commit", [], ["drinkers"])]
        assert cluster.transactions.offsets == {("drinkers", "tea", 0): 42}
        (request,) = cluster.requests(ApiKey.TXN_OFFSET_COMMIT)
        assert (request.generation_id, request.member_id) == (3, "m")


FAULTS: dict[str, Fate] = {
    "hangs up": HangUp(),
    "hangs up afterwards": HangUp(is_done=True),
    "stalls": Stall(),
    "garbage": Garbage(),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize(
    "api",
    [
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.PRODUCE,
    ],
    ids=lambda api: api.name,
)
def test_a_temporary_fault_only_delays_a_transaction(
    open_producer: OpenProducer, cluster: MockCluster, api: ApiKey, fault: Fate
) -> None:
    with cluster:
        cluster.script(api, fault)
        producer = ready(open_producer, cluster, **enough_for(fault))
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        producer.do("send_offsets_to_transaction", {PLACE: 42}, "drinkers")
        producer.do("commit_transaction")
        # Perhaps twice, if the response came too late.
        assert {what for what, _, _ in cluster.transactions.diary} == {"commit"}
        assert [record.value for record in cluster.topics["tea"][0].records] == [b"green"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_a_coordinator_that_is_not_ready_is_retried(
    open_producer: OpenProducer, cluster: MockCluster, code: ErrorCode
) -> None:
    with cluster:
        cluster.script(
            ApiKey.INIT_PRODUCER_ID, Instead(lambda _: InitProducerIdResponse(error_code=code))
        )
        producer = ready(open_producer, cluster)
        cluster.script(ApiKey.END_TXN, Instead(lambda _: EndTxnResponse(error_code=code)))
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        producer.do("commit_transaction")
        assert len(cluster.transactions.diary) == 1


def test_a_commit_with_a_lost_response_is_retried(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        cluster.script(ApiKey.END_TXN, HangUp(is_done=True))
        producer.do("commit_transaction")
        producer.do("begin_transaction")
        producer.send("tea", b"black", partition=0)
        producer.do("commit_transaction")
        assert {what for what, _, _ in cluster.transactions.diary} == {"commit"}


def test_a_timed_out_commit_can_be_repeated(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster, request_timeout_ms=2_000)
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        producer.do("flush", TIMEOUT_S)
        cluster.script(ApiKey.END_TXN, Stall())
        with pytest.raises(KafkaTimeout):
            producer.do("commit_transaction", 1.0)
        with pytest.raises(KafkaError):
            producer.do("abort_transaction")
        producer.do("commit_transaction")
        assert {what for what, _, _ in cluster.transactions.diary} == {"commit"}


def test_a_failed_record_makes_the_transaction_abortable(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    """KIP-360: after the abort the producer continues with a new epoch."""
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        cluster.script(ApiKey.PRODUCE, refusing(ErrorCode.INVALID_RECORD))
        producer.send("tea", b"bad", partition=0)
        with pytest.raises(KafkaError):
            producer.do("commit_transaction")
        with pytest.raises(KafkaError):
            producer.send("tea", b"more", partition=0)
        with pytest.raises(KafkaError):
            producer.do("begin_transaction")
        producer.do("abort_transaction")
        producer.do("begin_transaction")
        producer.send("tea", b"good", partition=0)
        producer.do("commit_transaction")
        assert [what for what, _, _ in cluster.transactions.diary] == ["abort", "commit"]
        (header,) = cluster.topics["tea"][0].headers
        assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_a_fenced_group_member_cannot_commit_offsets(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    def refusal(request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        (topic,) = request.topics
        return TxnOffsetCommitResponse(
            topics=(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=(
                        TxnOffsetCommitResponsePartition(error_code=ErrorCode.ILLEGAL_GENERATION),
                    ),
                ),
            )
        )

    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        cluster.script(ApiKey.TXN_OFFSET_COMMIT, Instead(refusal))
        with pytest.raises(IllegalGeneration):
            producer.do("send_offsets_to_transaction", {PLACE: 1}, "drinkers")
        producer.do("abort_transaction")
        producer.do("begin_transaction")
        producer.do("commit_transaction")


def test_a_fenced_producer_fails(open_producer: OpenProducer, cluster: MockCluster) -> None:
    with cluster:
        old = ready(open_producer, cluster)
        old.do("begin_transaction")
        old.send("tea", b"old", partition=0)
        old.do("flush", TIMEOUT_S)
        ready(open_producer, cluster)
        with pytest.raises(ProducerFenced):
            old.do("commit_transaction")
        with pytest.raises(ProducerFenced):
            old.do("abort_transaction")
        with pytest.raises(ProducerFenced):
            old.send("tea", b"zombie", partition=0)


def test_close_aborts_an_open_transaction(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        producer.do("begin_transaction")
        producer.send("tea", b"green", partition=0)
        producer.do("flush", TIMEOUT_S)
        producer.close(TIMEOUT_S)
        assert [what for what, _, _ in cluster.transactions.diary] == ["abort"]


def test_records_outside_a_transaction_are_rejected(
    open_producer: OpenProducer, cluster: MockCluster
) -> None:
    with cluster:
        producer = ready(open_producer, cluster)
        with pytest.raises(IllegalState, match="call begin_transaction first"):
            producer.send("tea", b"green")
        with pytest.raises(IllegalState, match="call begin_transaction first"):
            producer.do("commit_transaction")
        with pytest.raises(IllegalState):
            producer.do("init_transactions")


def test_transactions_require_a_transactional_id(
    open_producer: OpenProducer,
) -> None:
    with MockCluster() as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(IllegalState, match=r"transactional\.id"):
            producer.do("init_transactions")


def test_fatal_is_final_and_abortable_ends_with_an_abort() -> None:
    assert TRANSITIONS[TransactionPhase.FATAL] == {TransactionPhase.FATAL}
    assert TRANSITIONS[TransactionPhase.ABORTABLE] == {
        TransactionPhase.ENDING,
        TransactionPhase.ABORTABLE,
        TransactionPhase.FATAL,
    }
    state = TransactionState()
    state.ready()
    state.begin()
    state.failed(TransactionAbortable("x"))
    with pytest.raises(TransactionAbortable):
        state.begin_commit()
    state.begin_abort()
    state.ready()
    assert state.error is None
    state.failed(ProducerFenced("y"))
    state.ready()
    assert state.phase is TransactionPhase.FATAL
