"""The paths of API v2."""

from typing import Final

from headwater.rest.rest_request import Operation, route
from headwater.rest.v2 import consumers, produce, topics

_TOPICS: Final = "Topics (v2)"
_PARTITIONS: Final = "Partitions (v2)"
_CONSUMERS: Final = "Consumers (v2)"
_BROKERS: Final = "Brokers (v2)"
_INSTANCE: Final = "/consumers/{group_name}/instances/{instance}"

ROUTES: Final = (
    route(
        "/",
        _TOPICS,
        GET=Operation(
            handler=topics.root, id="root", summary="Check that the server answers.", answer="Empty"
        ),
    ),
    route(
        "/topics",
        _TOPICS,
        GET=Operation(
            handler=topics.list_topics,
            id="listTopicNames",
            summary="List the names of all topics.",
            answer="Names",
        ),
    ),
    route(
        "/topics/{topic_name}",
        _TOPICS,
        GET=Operation(
            handler=topics.get_topic,
            id="getTopicMetadata",
            summary="Get the configs and partitions of a topic.",
            answer="TopicMetadata",
        ),
        POST=Operation(
            handler=produce.produce_to_topic,
            id="produceToTopic",
            summary="Produce records to a topic.",
            body="ProduceRecords",
            answer="ProduceOffsets",
            embedded_body=True,
        ),
    ),
    route(
        "/topics/{topic_name}/partitions",
        _PARTITIONS,
        GET=Operation(
            handler=topics.list_partitions,
            id="listPartitionMetadata",
            summary="List the partitions of a topic.",
            answer="PartitionMetadataList",
        ),
    ),
    route(
        "/topics/{topic_name}/partitions/{partition_id}",
        _PARTITIONS,
        GET=Operation(
            handler=topics.get_partition,
            id="getPartitionMetadata",
            summary="Get the leader and the replicas of a partition.",
            answer="PartitionMetadata",
        ),
        POST=Operation(
            handler=produce.produce_to_partition,
            id="produceToPartition",
            summary="Produce records to a partition.",
            body="ProduceRecords",
            answer="ProduceOffsets",
            embedded_body=True,
        ),
    ),
    route(
        "/topics/{topic_name}/partitions/{partition_id}/offsets",
        _PARTITIONS,
        GET=Operation(
            handler=topics.get_offsets,
            id="getPartitionOffsets",
            summary="Get the first offset and the end offset of a partition.",
            answer="PartitionOffsets",
        ),
    ),
    route(
        "/brokers",
        _BROKERS,
        GET=Operation(
            handler=topics.list_brokers,
            id="listBrokerIds",
            summary="List the ids of the brokers.",
            answer="BrokerIds",
        ),
    ),
    route(
        "/consumers/{group_name}",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.create_instance,
            id="createConsumerInstance",
            summary="Create a consumer instance in a consumer group.",
            body="NewConsumerInstance",
            is_body_optional=True,
            answer="ConsumerInstance",
        ),
    ),
    route(
        _INSTANCE,
        _CONSUMERS,
        DELETE=Operation(
            handler=consumers.delete_instance,
            id="deleteConsumerInstance",
            summary="Leave the group and delete the consumer instance.",
            status=204,
        ),
    ),
    route(
        f"{_INSTANCE}/subscription",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.subscribe,
            id="subscribe",
            summary="Subscribe to topics or to a pattern.",
            body="Subscription",
            status=204,
        ),
        GET=Operation(
            handler=consumers.get_subscription,
            id="getSubscription",
            summary="Get the subscribed topics.",
            answer="SubscribedTopics",
        ),
        DELETE=Operation(
            handler=consumers.unsubscribe,
            id="unsubscribe",
            summary="Unsubscribe from all topics.",
            status=204,
        ),
    ),
    route(
        f"{_INSTANCE}/assignments",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.assign,
            id="assignPartitions",
            summary="Assign partitions manually.",
            body="Partitions",
            status=204,
        ),
        GET=Operation(
            handler=consumers.get_assignment,
            id="getAssignments",
            summary="Get the assigned partitions.",
            answer="Partitions",
        ),
    ),
    route(
        f"{_INSTANCE}/positions",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.seek,
            id="seek",
            summary="Continue at other offsets or times.",
            body="Positions",
            status=204,
        ),
    ),
    route(
        f"{_INSTANCE}/positions/beginning",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.seek_to_beginning,
            id="seekToBeginning",
            summary="Continue at the first offset of partitions.",
            body="Partitions",
            status=204,
        ),
    ),
    route(
        f"{_INSTANCE}/positions/end",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.seek_to_end,
            id="seekToEnd",
            summary="Continue at the end of partitions.",
            body="Partitions",
            status=204,
        ),
    ),
    route(
        f"{_INSTANCE}/records",
        _CONSUMERS,
        GET=Operation(
            handler=consumers.read_records,
            id="readRecords",
            summary="Read records.",
            answer="ConsumedRecords",
            query=("timeout", "max_bytes"),
            embedded_answer=True,
        ),
    ),
    route(
        f"{_INSTANCE}/offsets",
        _CONSUMERS,
        POST=Operation(
            handler=consumers.commit_offsets,
            id="commitOffsets",
            summary="Commit offsets; without a body, those of all records that were read.",
            body="CommitOffsets",
            is_body_optional=True,
            answer="Committed",
        ),
        GET=Operation(
            handler=consumers.get_committed_offsets,
            id="getCommittedOffsets",
            summary="Get committed offsets of partitions.",
            body="Partitions",
            is_body_optional=True,
            answer="CommittedOffsets",
        ),
    ),
)
