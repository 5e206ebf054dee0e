"""Progress of topic deletions."""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.topic_creation import new_partition
from headwater.controller.topic_deletion import TopicDeletions, finish_deletion
from headwater.metadata.changes import TopicCreated, TopicDeleted
from headwater.metadata.cluster_image import TopicImage
from headwater.metadata.control_requests import EPOCH_DURING_DELETE, ReplicaStop
from headwater.metadata.controller_result import ControllerResult
from tests.simulation.labs.cluster_lab import after, cluster_of

TOPIC = TopicImage(
    name="t",
    topic_id=TopicId(b"t" * 16),
    partitions=(new_partition([0, 1]), new_partition([1])),
)
STOP = ReplicaStop(EPOCH_DURING_DELETE, is_deleted=True)
OK = ErrorCode.NONE
BROKEN = ErrorCode.KAFKA_STORAGE_ERROR
ZERO, ONE = NodeId(0), NodeId(1)


def name(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def test_a_deletion_completes_with_the_last_stop_replica_response() -> None:
    deletions = TopicDeletions()
    orders = deletions.begin(TOPIC, [ZERO, ONE])
    assert orders == {ZERO: {name(0): STOP}, ONE: {name(0): STOP, name(1): STOP}}
    assert deletions.on_response(ONE, name(0), OK) is None
    assert deletions.on_response(ONE, name(0), OK) is None, "the same answer twice"
    assert deletions.on_response(ZERO, name(0), OK) is None
    assert deletions.on_response(ZERO, name(1), OK) is None, "of a replica that is not there"
    assert deletions.on_response(ONE, name(1), OK) == TOPIC.topic_id
    deletions.finished("t")
    assert len(deletions) == 0
    assert deletions.on_response(ONE, name(1), OK) is None


def test_failed_deletions_are_retried_when_the_broker_registers_again() -> None:
    deletions = TopicDeletions()
    assert deletions.begin(TOPIC, [ONE]) == {ONE: {name(0): STOP, name(1): STOP}}
    assert deletions.on_broker_online(ONE) == {}, "its orders are on their way"
    assert deletions.on_response(ONE, name(0), OK) is None
    assert deletions.on_response(ONE, name(1), BROKEN) is None
    assert deletions.on_broker_online(ZERO) == {name(0): STOP}
    deletions.on_broker_offline(ZERO)
    assert deletions.on_response(ZERO, name(0), OK) is None, "of a registration that has ended"
    assert deletions.on_broker_online(ZERO) == {name(0): STOP}
    assert deletions.on_response(ZERO, name(0), OK) is None
    assert deletions.on_broker_online(ONE) == {name(1): STOP}
    assert deletions.on_response(ONE, name(1), OK) == TOPIC.topic_id


def test_a_new_topic_of_the_same_name_is_not_deleted() -> None:
    image = after(cluster_of(), TopicCreated(TOPIC))
    assert finish_deletion(image, "t", TOPIC.topic_id) == ControllerResult(
        [TopicDeleted("t")], None
    )
    assert finish_deletion(image, "t", TopicId(b"u" * 16)) == ControllerResult((), None)
    assert finish_deletion(cluster_of(), "t", TOPIC.topic_id) == ControllerResult((), None)
