"""The paths of API v3."""

from typing import Final

from headwater.rest.rest_request import Operation, RestRoute, route
from headwater.rest.v3 import acls, clusters, configs, groups, records, topics

_CLUSTER: Final = "/v3/clusters/{cluster_id}"
_TOPIC: Final = f"{_CLUSTER}/topics/{{topic_name}}"
_PARTITION: Final = f"{_TOPIC}/partitions/{{partition_id}}"
_BROKER: Final = f"{_CLUSTER}/brokers/{{broker_id}}"
_GROUP: Final = f"{_CLUSTER}/consumer-groups/{{consumer_group_id}}"
_CONSUMER: Final = f"{_GROUP}/consumers/{{consumer_id}}"

_CLUSTERS: Final = "Cluster (v3)"
_BROKERS: Final = "Broker (v3)"
_CONFIGS: Final = "Configs (v3)"
_TOPICS: Final = "Topic (v3)"
_PARTITIONS: Final = "Partition (v3)"
_GROUPS: Final = "Consumer Group (v3)"
_ACLS: Final = "ACL (v3)"
_RECORDS: Final = "Records (v3)"

_ACL_FILTER: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


def _config_routes(path: str, what: str, name: str, owner: configs.Owner) -> tuple[RestRoute, ...]:
    """The paths below one owner of configs: all, several at once, and one."""
    kind = f"{name}ConfigData"
    return (
        route(
            path,
            _CONFIGS,
            GET=Operation(
                handler=configs.list_configs(owner),
                id=f"list{name}Configs",
                summary=f"List the configs of {what}.",
                answer=f"{kind}List",
            ),
        ),
        route(
            f"{path}:alter",
            _CONFIGS,
            POST=Operation(
                handler=configs.alter_configs(owner),
                id=f"alter{name}Configs",
                summary=f"Set and reset several configs of {what}.",
                body="AlterConfigBatchRequestData",
                status=204,
            ),
        ),
        route(
            f"{path}/{{name}}",
            _CONFIGS,
            GET=Operation(
                handler=configs.get_config(owner),
                id=f"get{name}Config",
                summary=f"Get a config of {what}.",
                answer=kind,
            ),
            PUT=Operation(
                handler=configs.update_config(owner),
                id=f"update{name}Config",
                summary=f"Set a config of {what}.",
                body="UpdateConfigRequestData",
                status=204,
            ),
            DELETE=Operation(
                handler=configs.delete_config(owner),
                id=f"delete{name}Config",
                summary=f"Reset a config of {what} to its default.",
                status=204,
            ),
        ),
    )


# A path with `-` stands before the one with a parameter in its place.
ROUTES: Final = (
    route(
        "/v3/clusters",
        _CLUSTERS,
        GET=Operation(
            handler=clusters.list_clusters,
            id="listClusters",
            summary="List the cluster of this server.",
            answer="ClusterDataList",
        ),
    ),
    route(
        _CLUSTER,
        _CLUSTERS,
        GET=Operation(
            handler=clusters.get_cluster,
            id="getCluster",
            summary="Get the cluster.",
            answer="ClusterData",
        ),
    ),
    route(
        f"{_CLUSTER}/brokers",
        _BROKERS,
        GET=Operation(
            handler=clusters.list_brokers,
            id="listBrokers",
            summary="List the brokers.",
            answer="BrokerDataList",
        ),
    ),
    route(
        _BROKER,
        _BROKERS,
        GET=Operation(
            handler=clusters.get_broker,
            id="getBroker",
            summary="Get a broker.",
            answer="BrokerData",
        ),
    ),
    route(
        f"{_CLUSTER}/brokers/-/configs",
        _CONFIGS,
        GET=Operation(
            handler=configs.list_all_broker_configs,
            id="listAllBrokerConfigs",
            summary="List the configs of all brokers.",
            answer="BrokerConfigDataList",
        ),
    ),
    *_config_routes(f"{_BROKER}/configs", "a broker", "Broker", configs.broker_owner),
    *_config_routes(
        f"{_CLUSTER}/broker-configs",
        "all brokers, set for the whole cluster",
        "Cluster",
        configs.cluster_owner,
    ),
    route(
        f"{_BROKER}/partition-replicas",
        _BROKERS,
        GET=Operation(
            handler=clusters.list_broker_replicas,
            id="listBrokerReplicas",
            summary="List the replicas on a broker.",
            answer="ReplicaDataList",
        ),
    ),
    route(
        f"{_CLUSTER}/topics",
        _TOPICS,
        GET=Operation(
            handler=topics.list_topics,
            id="listTopics",
            summary="List the topics.",
            answer="TopicDataList",
        ),
        POST=Operation(
            handler=topics.create_topic,
            id="createTopic",
            summary="Create a topic.",
            body="CreateTopicRequestData",
            answer="TopicData",
            status=201,
        ),
    ),
    route(
        _TOPIC,
        _TOPICS,
        GET=Operation(
            handler=topics.get_topic, id="getTopic", summary="Get a topic.", answer="TopicData"
        ),
        PATCH=Operation(
            handler=topics.update_topic,
            id="updatePartitionCount",
            summary="Add partitions to a topic.",
            body="UpdatePartitionCountRequestData",
            answer="TopicData",
        ),
        DELETE=Operation(
            handler=topics.delete_topic, id="deleteTopic", summary="Delete a topic.", status=204
        ),
    ),
    route(
        f"{_CLUSTER}/topics/-/configs",
        _CONFIGS,
        GET=Operation(
            handler=configs.list_all_topic_configs,
            id="listAllTopicConfigs",
            summary="List the configs of all topics.",
            answer="TopicConfigDataList",
        ),
    ),
    *_config_routes(f"{_TOPIC}/configs", "a topic", "Topic", configs.topic_owner),
    route(
        f"{_TOPIC}/partitions",
        _PARTITIONS,
        GET=Operation(
            handler=topics.list_partitions,
            id="listPartitions",
            summary="List the partitions of a topic.",
            answer="PartitionDataList",
        ),
    ),
    route(
        _PARTITION,
        _PARTITIONS,
        GET=Operation(
            handler=topics.get_partition,
            id="getPartition",
            summary="Get a partition.",
            answer="PartitionData",
        ),
    ),
    route(
        f"{_PARTITION}/offset",
        _PARTITIONS,
        GET=Operation(
            handler=topics.get_partition_offsets,
            id="getPartitionWithOffsets",
            summary="Get the first offset and the end offset of a partition.",
            answer="PartitionWithOffsetsData",
        ),
    ),
    route(
        f"{_CLUSTER}/topics/-/partitions/-/reassignment",
        _PARTITIONS,
        GET=Operation(
            handler=clusters.list_reassignments,
            id="listAllReassignments",
            summary="List the reassignments in progress.",
            answer="ReassignmentDataList",
        ),
    ),
    route(
        f"{_TOPIC}/partitions/-/reassignment",
        _PARTITIONS,
        GET=Operation(
            handler=clusters.list_topic_reassignments,
            id="listTopicReassignments",
            summary="List the reassignments in progress of a topic.",
            answer="ReassignmentDataList",
        ),
    ),
    route(
        f"{_PARTITION}/reassignment",
        _PARTITIONS,
        GET=Operation(
            handler=clusters.get_reassignment,
            id="getReassignment",
            summary="Get the reassignment in progress of a partition.",
            answer="ReassignmentData",
        ),
    ),
    route(
        f"{_PARTITION}/replicas",
        _PARTITIONS,
        GET=Operation(
            handler=topics.list_replicas,
            id="listReplicas",
            summary="List the replicas of a partition.",
            answer="ReplicaDataList",
        ),
    ),
    route(
        f"{_PARTITION}/replicas/{{broker_id}}",
        _PARTITIONS,
        GET=Operation(
            handler=topics.get_replica,
            id="getReplica",
            summary="Get a replica of a partition.",
            answer="ReplicaData",
        ),
    ),
    route(
        f"{_CLUSTER}/consumer-groups",
        _GROUPS,
        GET=Operation(
            handler=groups.list_groups,
            id="listConsumerGroups",
            summary="List the consumer groups.",
            answer="ConsumerGroupDataList",
        ),
    ),
    route(
        _GROUP,
        _GROUPS,
        GET=Operation(
            handler=groups.get_group,
            id="getConsumerGroup",
            summary="Get a consumer group.",
            answer="ConsumerGroupData",
        ),
    ),
    route(
        f"{_GROUP}/consumers",
        _GROUPS,
        GET=Operation(
            handler=groups.list_consumers,
            id="listConsumers",
            summary="List the members of a consumer group.",
            answer="ConsumerDataList",
        ),
    ),
    route(
        _CONSUMER,
        _GROUPS,
        GET=Operation(
            handler=groups.get_consumer,
            id="getConsumer",
            summary="Get a member of a consumer group.",
            answer="ConsumerData",
        ),
    ),
    route(
        f"{_CONSUMER}/assignments",
        _GROUPS,
        GET=Operation(
            handler=groups.list_assignments,
            id="listConsumerAssignments",
            summary="List the partitions that are assigned to a member.",
            answer="ConsumerAssignmentDataList",
        ),
    ),
    route(
        f"{_CONSUMER}/assignments/{{topic_name}}/partitions/{{partition_id}}",
        _GROUPS,
        GET=Operation(
            handler=groups.get_assignment,
            id="getConsumerAssignment",
            summary="Get the assignment of a partition to a member.",
            answer="ConsumerAssignmentData",
        ),
    ),
    route(
        f"{_GROUP}/lag-summary",
        _GROUPS,
        GET=Operation(
            handler=groups.get_lag_summary,
            id="getConsumerGroupLagSummary",
            summary="Get the largest lag and the total lag of a consumer group.",
            answer="ConsumerGroupLagSummaryData",
        ),
    ),
    route(
        f"{_GROUP}/lags",
        _GROUPS,
        GET=Operation(
            handler=groups.list_lags,
            id="listConsumerLags",
            summary="List the lag of a consumer group by partition.",
            answer="ConsumerLagDataList",
        ),
    ),
    route(
        f"{_GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}",
        _GROUPS,
        GET=Operation(
            handler=groups.get_lag,
            id="getConsumerLag",
            summary="Get the lag of a consumer group in a partition.",
            answer="ConsumerLagData",
        ),
    ),
    route(
        f"{_CLUSTER}/acls",
        _ACLS,
        GET=Operation(
            handler=acls.list_acls,
            id="listAcls",
            summary="List the ACLs that match.",
            answer="AclDataList",
            query=_ACL_FILTER,
        ),
        POST=Operation(
            handler=acls.create_acl,
            id="createAcl",
            summary="Create an ACL.",
            body="CreateAclRequestData",
            answer="Empty",
            status=201,
        ),
        DELETE=Operation(
            handler=acls.delete_acls,
            id="deleteAcls",
            summary="Delete the ACLs that match.",
            answer="DeletedAcls",
            query=_ACL_FILTER,
        ),
    ),
    route(
        f"{_CLUSTER}/acls:batch",
        _ACLS,
        POST=Operation(
            handler=acls.create_acls,
            id="createAcls",
            summary="Create several ACLs.",
            body="CreateAclRequestDataList",
            answer="Empty",
            status=201,
        ),
    ),
    route(
        f"{_TOPIC}/records",
        _RECORDS,
        POST=Operation(
            handler=records.start_record,
            id="produceRecord",
            summary="Produce a record, or a stream of records with a result for each.",
            body="ProduceRequest",
            answer="ProduceResponse",
            is_stream=True,
        ),
    ),
    route(
        f"{_TOPIC}/records:batch",
        _RECORDS,
        POST=Operation(
            handler=records.produce_batch,
            id="produceRecords",
            summary="Produce several records.",
            body="ProduceBatchRequest",
            answer="ProduceBatchResponse",
            status=207,
        ),
    ),
)
