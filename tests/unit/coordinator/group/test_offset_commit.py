"""OffsetCommit and TxnOffsetCommit: validation, records, responses."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicId
from headwater.coordinator.group.group import GROUP_TIMER, Group
from headwater.coordinator.group.offset_commit import (
    CommitSettings,
    commit,
    commit_in_transaction,
)
from headwater.coordinator.group.simple_group import SimpleGroup
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
    TransactionalProducer,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.simulation.fakes.scripted_group import PuppetGroup

NOW_MS = 1000
CALLER = Caller(4)
SETTINGS = CommitSettings(metadata_max_bytes=4)
ORDERS_ID = TopicId(bytes(range(16)))


def request(
    *partitions: OffsetCommitRequestPartition,
    generation: int = -1,
    retention_time_ms: int = -1,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=generation,
        retention_time_ms=retention_time_ms,
        topics=(
            OffsetCommitRequestTopic(name="orders", topic_id=ORDERS_ID, partitions=partitions),
        ),
    )


def decide(asked: OffsetCommitRequest, group: Group | None, version: int = 9) -> list[Effect]:
    return commit(_asked(asked, version), asked, group, SETTINGS)


def _asked(message: OffsetCommitRequest | TxnOffsetCommitRequest, version: int) -> RequestEvent:
    return RequestEvent(
        request=message,
        version=version,
        caller=CALLER,
        client_id="c",
        client_host="h",
        now_ms=NOW_MS,
    )


def answer(**errors: ErrorCode) -> Reply:
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=int(index[1:]), error_code=error)
        for index, error in errors.items()
    )
    topic = OffsetCommitResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=partitions)
    return Reply(CALLER, OffsetCommitResponse(topics=(topic,)))


def record(partition: int, offset: int, **fields: str | int) -> OffsetCommitRecord:
    values = {"metadata": "", "leader_epoch": -1, "expire_timestamp": -1, **fields}
    return OffsetCommitRecord(
        OffsetCommitKey(group="g", topic="orders", partition=partition),
        OffsetCommitValue(
            offset=offset,
            leader_epoch=int(values["leader_epoch"]),
            metadata=str(values["metadata"]),
            commit_timestamp=NOW_MS,
            expire_timestamp=int(values["expire_timestamp"]),
            topic_id=ORDERS_ID,
        ),
    )


PLAIN = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)


def test_a_members_commit_is_written_and_extends_its_session() -> None:
    """GR-11."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=2, committed_metadata="abcd"
    )
    assert decide(request(partition, generation=3), PuppetGroup()) == [
        SetTimer((GROUP_TIMER, "g", "m"), NOW_MS + 1),
        Append((record(0, 5, leader_epoch=2, metadata="abcd"),)),
        answer(p0=ErrorCode.NONE),
    ]


def test_a_rejected_member_writes_nothing_and_gets_the_error_for_each_partition() -> None:
    """GR-11."""
    group = PuppetGroup(refusal=ErrorCode.ILLEGAL_GENERATION)
    other = OffsetCommitRequestPartition(partition_index=1)
    assert decide(request(PLAIN, other, generation=3), group) == [
        answer(p0=ErrorCode.ILLEGAL_GENERATION, p1=ErrorCode.ILLEGAL_GENERATION)
    ]


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_generation_of_an_unknown_group_is_rejected(version: int, error: ErrorCode) -> None:
    """GR-11."""
    assert decide(request(PLAIN, generation=1), None, version) == [answer(p0=error)]


@pytest.mark.parametrize("group", [None, SimpleGroup("g")])
def test_a_commit_without_a_generation_creates_a_simple_group(group: Group | None) -> None:
    """GR-11."""
    assert decide(request(PLAIN), group) == [
        Append((record(0, 5),)),
        answer(p0=ErrorCode.NONE),
    ]


def test_a_simple_group_has_no_generation() -> None:
    """GR-11."""
    assert decide(request(PLAIN, generation=0), SimpleGroup("g")) == [
        answer(p0=ErrorCode.UNKNOWN_MEMBER_ID)
    ]


def test_metadata_that_is_too_long_is_rejected_and_other_partitions_written() -> None:
    """GR-11."""
    long = OffsetCommitRequestPartition(partition_index=1, committed_metadata="abcde")
    assert decide(request(long, PLAIN), None) == [
        Append((record(0, 5),)),
        answer(p1=ErrorCode.OFFSET_METADATA_TOO_LARGE, p0=ErrorCode.NONE),
    ]
    assert decide(request(long), None) == [answer(p1=ErrorCode.OFFSET_METADATA_TOO_LARGE)]


def test_metadata_is_measured_in_utf16_code_units() -> None:
    three_units_too_few = OffsetCommitRequestPartition(committed_metadata="\U0001f600\U0001f600")
    one_too_many = OffsetCommitRequestPartition(committed_metadata="\U0001f600\U0001f600a")
    assert answer(p0=ErrorCode.NONE) in decide(request(three_units_too_few), None)
    assert decide(request(one_too_many), None) == [answer(p0=ErrorCode.OFFSET_METADATA_TOO_LARGE)]


def test_null_metadata_is_stored_as_an_empty_string() -> None:
    partition = OffsetCommitRequestPartition(committed_offset=5, committed_metadata=None)
    assert Append((record(0, 5),)) in decide(request(partition), None)


def test_an_old_client_may_set_its_own_retention() -> None:
    """OE-2."""
    effects = decide(request(PLAIN, retention_time_ms=50), None, version=3)
    assert Append((record(0, 5, expire_timestamp=NOW_MS + 50),)) in effects


def transactional(generation: int = -1, metadata: str = "") -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(committed_offset=5, committed_metadata=metadata)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        producer_epoch=2,
        generation_id=generation,
        topics=(TxnOffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
    )


def decide_transactional(asked: TxnOffsetCommitRequest, group: Group | None) -> list[Effect]:
    return commit_in_transaction(_asked(asked, 3), asked, group, SETTINGS)


def transactional_answer(error: ErrorCode) -> Reply:
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=error)
    topic = TxnOffsetCommitResponseTopic(name="orders", partitions=(partition,))
    return Reply(CALLER, TxnOffsetCommitResponse(topics=(topic,)))


@pytest.mark.parametrize("group", [None, SimpleGroup("g"), PuppetGroup()])
def test_a_transactional_commit_is_written_with_its_producer(
    group: Group | None,
) -> None:
    """TX-11. It does not extend the member's session."""
    key = OffsetCommitKey(group="g", topic="orders", partition=0)
    value = OffsetCommitValue(offset=5, commit_timestamp=NOW_MS)
    assert decide_transactional(transactional(), group) == [
        Append((OffsetCommitRecord(key, value),), TransactionalProducer(ProducerId(7), 2)),
        transactional_answer(ErrorCode.NONE),
    ]


def test_a_transactional_commit_of_an_unknown_groups_member_is_rejected() -> None:
    """TX-11."""
    assert decide_transactional(transactional(generation=1), None) == [
        transactional_answer(ErrorCode.ILLEGAL_GENERATION)
    ]


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_rejected_transactional_commit_gets_errors_that_it_knows(
    refusal: ErrorCode, told: ErrorCode
) -> None:
    """TX-11."""
    group = PuppetGroup(refusal=refusal)
    assert decide_transactional(transactional(generation=1), group) == [transactional_answer(told)]


def test_transactional_metadata_has_a_limit_too() -> None:
    assert decide_transactional(transactional(metadata="abcde"), None) == [
        transactional_answer(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    ]
