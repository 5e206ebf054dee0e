"""Brokers, features and log directories of the cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headwater import __version__
from headwater.client.admin.admin_calls import Calls, by_topic, checked, outcome, results_of
from headwater.client.admin.descriptions import (
    ClusterDescription,
    FeatureRange,
    LogDir,
    ReplicaInfo,
    ReplicaLogDir,
)
from headwater.client.argument_checks import several, topic_partition
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_metadata import BrokerNode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class ClusterCalls(Calls):
    """The cluster methods of the admin client."""

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The brokers and the controller."""
        answer = await self._call_any(
            DescribeClusterRequest(), DescribeClusterResponse, self._deadline_ms(timeout)
        )
        checked(answer.error_code, answer.error_message, "cluster")
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(
                BrokerNode(
                    node_id=each.broker_id,
                    address=BootstrapAddress(each.host, each.port),
                    rack=each.rack,
                )
                for each in sorted(answer.brokers, key=lambda one: one.broker_id)
            ),
        )

    async def describe_features(self, *, timeout: float | None = None) -> dict[str, FeatureRange]:
        """The supported and finalized versions of features."""
        answer = await self._call_any(
            ApiVersionsRequest(
                client_software_name="headwater", client_software_version=__version__
            ),
            ApiVersionsResponse,
            self._deadline_ms(timeout),
        )
        checked(answer.error_code, None, "features")
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        return {
            each.name: FeatureRange(
                min_version=each.min_version,
                max_version=each.max_version,
                finalized=finalized.get(each.name, 0),
            )
            for each in answer.supported_features
        }

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set the finalized levels of features; 0 disables a feature."""
        deadline_ms = self._deadline_ms(timeout)
        answer = await self._call_controller(
            UpdateFeaturesRequest(
                timeout_ms=self._left_ms(deadline_ms),
                feature_updates=tuple(
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=level,
                        upgrade_type=SAFE_DOWNGRADE if allow_downgrade else UPGRADE,
                    )
                    for name, level in levels.items()
                ),
                validate_only=validate_only,
            ),
            UpdateFeaturesResponse,
            deadline_ms,
            lambda answer: [answer.error_code],
        )
        checked(answer.error_code, answer.error_message, "features")
        results_of(
            {
                each.feature: outcome(each.error_code, each.error_message, each.feature, None)
                for each in answer.results
            },
            # Since version 2 the response has no results per feature on success.
            requested=levels if answer.results else (),
        )

    # Log directories.

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[LogDir]]:
        """The log directories of these brokers, or of all."""
        chosen = None if broker_ids is None else several(broker_ids, "broker_ids")
        deadline_ms = self._deadline_ms(timeout)
        metadata = await self._cluster.refresh(deadline_ms=deadline_ms)
        request = DescribeLogDirsRequest(topics=None)
        found: dict[int, list[LogDir]] = {}
        for node_id in sorted(metadata.brokers if chosen is None else chosen):
            answer = await self._call_broker(
                node_id,
                request,
                DescribeLogDirsResponse,
                deadline_ms,
                lambda answer: answer.error_code,
            )
            checked(answer.error_code, None, f"broker {node_id}")
            found[node_id] = []
            for result in answer.results:
                checked(result.error_code, None, f"{result.log_dir} of broker {node_id}")
                replicas = {
                    TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                        size_bytes=each.partition_size,
                        offset_lag=each.offset_lag,
                        is_future=each.is_future_key,
                    )
                    for topic in result.topics
                    for each in topic.partitions
                }
                found[node_id].append(
                    LogDir(
                        path=result.log_dir,
                        replicas=replicas,
                        total_bytes=result.total_bytes,
                        usable_bytes=result.usable_bytes,
                    )
                )
        return found

    async def describe_replica_log_dirs(
        self,
        broker_id: int,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ReplicaLogDir]:
        """The log directories of replicas on one broker, and the targets of moves."""
        wanted = [topic_partition(each) for each in several(partitions, "partitions")]
        found = dict.fromkeys(wanted, ReplicaLogDir())
        directories = (await self.describe_log_dirs([broker_id], timeout=timeout))[broker_id]
        for directory in directories:
            for each in wanted:
                info = directory.replicas.get(each)
                if info is None:
                    continue
                if info.is_future:
                    found[each] = replace(
                        found[each], future=directory.path, future_offset_lag=info.offset_lag
                    )
                else:
                    found[each] = replace(
                        found[each], current=directory.path, current_offset_lag=info.offset_lag
                    )
        return found

    async def alter_replica_log_dirs(
        self,
        broker_id: int,
        paths: Mapping[TopicPartition, str],
        *,
        timeout: float | None = None,
    ) -> None:
        """Move replicas to other log directories of a broker, in the background.

        `describe_replica_log_dirs` shows the progress. To cancel a move, move the replica to its
        current directory. A partition that the broker does not have yet will be created in the
        directory, although the call reports that the replica does not exist.
        """
        by_path: dict[str, list[TopicPartition]] = {}
        chosen = {topic_partition(each): path for each, path in paths.items()}
        for each, path in chosen.items():
            by_path.setdefault(path, []).append(each)
        request = AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=path,
                    topics=tuple(
                        AlterReplicaLogDirTopic(name=name, partitions=tuple(numbers))
                        for name, numbers in by_topic(places).items()
                    ),
                )
                for path, places in by_path.items()
            )
        )
        answer = await self._call_broker(
            broker_id, request, AlterReplicaLogDirsResponse, self._deadline_ms(timeout)
        )
        codes = {
            TopicPartition(topic.topic_name, each.partition_index): each.error_code
            for topic in answer.results
            for each in topic.partitions
        }
        results_of(
            {each: outcome(code, None, each, None) for each, code in codes.items()},
            requested=chosen,
        )
