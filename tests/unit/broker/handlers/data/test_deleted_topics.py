"""Names of deleted topics, of which a bounded number is remembered."""

from headwater.broker.handlers.data.deleted_topics import DeletedTopics
from headwater.common.ids import NO_TOPIC_ID
from headwater.metadata.changes import TopicCreated, TopicDeleted
from headwater.metadata.cluster_image import TopicImage


def remembered(names: DeletedTopics) -> list[str]:
    return [name for name in "abc" if name in names]


def test_oldest_deletion_is_forgotten_first() -> None:
    names = DeletedTopics(names_max=2)
    names.changed([TopicDeleted("a"), TopicDeleted("b"), TopicDeleted("a")])
    assert remembered(names) == ["a", "b"]
    names.changed([TopicDeleted("c")])
    assert remembered(names) == ["a", "c"]


def test_recreated_topic_is_no_longer_deleted() -> None:
    names = DeletedTopics()
    names.changed([TopicDeleted("a"), TopicDeleted("b")])
    names.changed([TopicCreated(TopicImage(name="a", topic_id=NO_TOPIC_ID, partitions=()))])
    assert remembered(names) == ["b"]
