"""All partitions of this broker, kept in step with the cluster image.

Note: a partition exists here as soon as the cluster image has it, but its folder may not.
`Partition.open_log` creates it; `open_some` does so in the background for partitions that no
request has used yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError, TooManyOpenFiles, UnreadableLog
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.metadata.changes import (
    BrokerRegistered,
    ConfigsReplaced,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
)
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, TopicImage
from headwater.metadata.effective_configs import StaticConfig, settings_for, topic_defaults_for
from headwater.replication.partition import HostedTopic, Partition
from headwater.replication.replica_fetcher_manager import ReplicaFetcherManager
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_directory import LogDirectory
from headwater.storage.log_manager.log_manager import LogManager

_log = logging.getLogger(__name__)

_OPENED_AT_ONCE_MS: Final = 10


class ReplicaManager:
    """Finds partitions by topic name and by topic id."""

    def __init__(
        self,
        image: ClusterImage,
        static: StaticConfig,
        directories: LogManager,
        clock: Clock,
        replicas: ReplicaFetcherManager | None = None,
    ) -> None:
        """`replicas` is None on a standalone broker."""
        self._image = image
        self._static = static
        self._directories = directories
        self._clock = clock
        self.replicas = replicas
        self._defaults: TopicSettings | None = None
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}
        self._unopened: dict[Partition, None] = {}
        self._failed_count = 0
        # In a cluster, the first update from the controller says which partitions belong here.
        self._is_reconciled = replicas is None
        # First partition that was created while this broker ran, by topic: the folders of these are
        # not on a directory that had failed before.
        self._new_from: dict[TopicId, int] = {}
        self.on_log_opened: Callable[[Partition], None] | None = None
        """Called when the log of a partition was opened or created."""
        for topic in image.topics.values():
            self._add_local(topic, 0, topic.partitions)
        if replicas is not None:
            replicas.changed(image)
            replicas.begin(self._led)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def by_name(self, topic: str) -> dict[int, Partition] | None:
        """Return a topic's partitions on this broker by number; None without any."""
        return self._by_name.get(topic)

    def by_id(self, topic_id: TopicId) -> dict[int, Partition] | None:
        return self._by_id.get(topic_id)

    def find(self, topic: str, partition: int) -> Partition | None:
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(partition)

    def missing_partition_error(self, topic: str | TopicId, partition: int) -> ErrorCode:
        """Return the error for a partition that is not on this broker (FT-11)."""
        image = self._image
        if isinstance(topic, TopicId):
            found = image.topic_by_id(topic)
            if found is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found = image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def topics(self) -> Iterator[HostedTopic]:
        for partitions in self._by_name.values():
            yield next(iter(partitions.values())).topic

    def settings_of(self, topic: str) -> TopicSettings:
        """Return the settings that apply to the logs of a topic."""
        if self._defaults is None:
            self._defaults = topic_defaults_for(self._image, self._static)
        return settings_for(self._image, topic, self._defaults)

    def changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        """Apply metadata changes; `image` is the cluster image after them."""
        former, self._image = self._image, image
        if self.replicas is not None:
            self.replicas.changed(image)
        removed: list[Partition] = []
        for change in changes:
            match change:
                case TopicCreated(topic):
                    self._new_from[topic.topic_id] = 0
                    self._add_local(topic, 0, topic.partitions)
                case PartitionsAdded(name, added):
                    topic = image.topics[name]
                    first = len(topic.partitions) - len(added)
                    self._new_from.setdefault(topic.topic_id, first)
                    self._add_local(topic, first, added)
                case TopicDeleted(name):
                    removed += self._release(name)
                    known = former.topics.get(name)
                    if known is not None:
                        # Also if this broker had no partition of the topic.
                        self._new_from.pop(known.topic_id, None)
                case PartitionChanged(name, number, partition):
                    self._update(image.topics[name], number, partition)
                case ConfigsReplaced(resource, _):
                    self._reconfigure(resource.resource_type, resource.name)
                case TopicKnown(topic):
                    self._add_local(topic, 0, topic.partitions)
                case PartitionDropped(name, number, is_deleted):
                    dropped = self._drop(name, number)
                    removed += dropped if is_deleted else ()
                case BrokerRegistered(broker):
                    self._check_isr_of(broker.node_id)
        if not self._is_reconciled and any(
            isinstance(change, BrokerRegistered) for change in changes
        ):
            self.reconcile_log_dirs()
        self._delete_logs(removed)
        if self.replicas is not None:
            # Leaders need their followers, and followers only fetch once their logs are open.
            self.open_some(_OPENED_AT_ONCE_MS)

    def configure(self, settings: BrokerSettings) -> None:
        """Apply dynamic settings."""
        if self.replicas is not None:
            self.replicas.configure(settings)

    def open_some(self, limit_ms: int) -> None:
        """Open or create logs in the background for about `limit_ms`.

        Limited by time, not by number, because opening depends on the disk.
        """
        until_ms = self._clock.steady_ms() + limit_ms
        while self._unopened:
            partition = next(iter(self._unopened))
            try:
                partition.open_log()
            except (StorageError, UnreadableLog) as error:
                _log.error("Partition is offline: partition=%s error=%s", partition.name, error)
            except TooManyOpenFiles:
                # Retried later, when other files have been closed.
                self._unopened[partition] = None
                return
            self._unopened.pop(partition, None)
            if self._clock.steady_ms() >= until_ms:
                return

    def expire_verifications(self, now_ms: int, expiration_ms: int) -> None:
        """Drop pending transaction verifications that led to no batch (IDP-8)."""
        for partition in self:
            if partition.transaction_verification is not None:
                partition.transaction_verification.expire(now_ms, expiration_ms)

    # Failed log directories.

    def handle_failed_log_dirs(self) -> bool:
        """Take partitions on failed log directories offline; True if one failed.

        The caller reports to the controller, which then asks for each partition's state with
        `log_dir_error` and elects other leaders.
        """
        failed = [each for each in self._directories.directories if each.failure is not None]
        if len(failed) == self._failed_count:
            return False
        self._failed_count = len(failed)
        for partition in self:
            if partition.log is not None and partition.log.failure is not None:
                partition.go_offline()
        return True

    def log_dir_error(self, name: TopicPartition) -> ErrorCode:
        """Return KAFKA_STORAGE_ERROR if the partition's log directory failed, else NONE."""
        partition = self.find(*name)
        is_offline = partition is not None and self._is_offline(partition)
        return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NONE

    def _is_offline(self, partition: Partition) -> bool:
        """Does not open the log, as the controller may ask about thousands."""
        if partition.log is not None:
            return partition.log.failure is not None
        directories = self._directories
        if partition.name in directories:
            home = directories.directory_of(partition.name)
            return home.failure is not None or partition.name in home.unreadable_logs
        # Its log may be on the failed directory and must not be created again elsewhere.
        new_from = self._new_from.get(partition.topic.topic_id)
        is_new = new_from is not None and partition.number >= new_from
        return not is_new and len(directories.serving()) < len(directories.directories)

    def _add_local(
        self, topic: TopicImage, first: int, partitions: Iterable[PartitionRegistration]
    ) -> None:
        for number, state in enumerate(partitions, first):
            if self._static.node_id in state.replicas:
                self._add(topic, number, state)

    def _add(self, topic: TopicImage, number: int, state: PartitionRegistration) -> None:
        hosted = self._by_name.get(topic.name)
        if hosted is None:
            hosted = self._by_name[topic.name] = self._by_id[topic.topic_id] = {}
        shared = (
            next(iter(hosted.values())).topic if hosted else HostedTopic(topic.name, topic.topic_id)
        )
        partition = Partition(
            shared,
            number,
            state,
            node_id=self._static.node_id,
            open_log=self._open,
            services=self.replicas,
        )
        hosted[number] = partition
        self._unopened[partition] = None

    def _release(self, name: str) -> list[Partition]:
        partitions = self._by_name.pop(name, {})
        if not partitions:
            return []
        topic_id = next(iter(partitions.values())).topic.topic_id
        self._by_id.pop(topic_id, None)
        self._new_from.pop(topic_id, None)
        for partition in partitions.values():
            self._unopened.pop(partition, None)
            partition.remove()
        return list(partitions.values())

    def _drop(self, name: str, number: int) -> list[Partition]:
        """Remove a partition that other brokers still have; keep its log."""
        of_topic = self._by_name.get(name, {})
        partition = of_topic.pop(number, None)
        if partition is None:
            return []
        if not of_topic:
            del self._by_name[name], self._by_id[partition.topic.topic_id]
        self._unopened.pop(partition, None)
        partition.remove(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [partition]

    def _update(self, topic: TopicImage, number: int, state: PartitionRegistration) -> None:
        partition = self.find(topic.name, number)
        if partition is not None:
            partition.update_state(state)
        elif self._static.node_id in state.replicas:
            # A reassignment adds a replica on this broker.
            self._add(topic, number, state)

    def _check_isr_of(self, node_id: NodeId) -> None:
        """Check ISRs after a registration: earlier fetches may count now (ISR-3)."""
        for partition in self._led():
            if partition.has_follower(node_id):
                partition.check_isr()

    def _led(self) -> Iterator[Partition]:
        """Led partitions with replicas on other brokers."""
        return (each for each in self if each.leader_state is not None)

    def _reconfigure(self, resource_type: ResourceType, name: str) -> None:
        """Apply new settings to open logs at once (CF-1), to others when they are opened."""
        if resource_type is ResourceType.TOPIC:
            self._configure(name)
        elif resource_type is ResourceType.BROKER:
            self._defaults = None
            for topic in self._by_name:
                self._configure(topic)

    def _configure(self, topic: str) -> None:
        settings = self.settings_of(topic)
        for partition in self._by_name.get(topic, {}).values():
            if partition.log is not None:
                partition.log.configure(settings)

    def _open(self, partition: Partition) -> UnifiedLog:
        now_ms = self._clock.now_ms()
        self._unopened.pop(partition, None)
        log = self._directories.log(partition.name, now_ms=now_ms)
        if log is not None:
            self._log_opened(partition)
            return log
        if self._is_offline(partition):
            raise StorageError(
                f"partition {partition.name} may be on a log directory that is offline"
            )
        topic_id = partition.topic.topic_id
        log = self._directories.create(partition.name, topic_id, now_ms=now_ms)
        self._log_opened(partition)
        return log

    def _log_opened(self, partition: Partition) -> None:
        if self.on_log_opened is not None:
            self.on_log_opened(partition)

    def _delete_logs(self, removed: Iterable[Partition]) -> None:
        names = [each.name for each in removed if each.name in self._directories]
        try:
            self._directories.delete_all(names, now_ms=self._clock.now_ms())
        except StorageError as error:
            _log.error("Deleting the folders of removed partitions failed: error=%s", error)

    def reconcile_log_dirs(self) -> None:
        """Compare partition folders with the cluster image, once all are known.

        In a cluster this waits for the controller's first update, which contains all partitions and
        the live brokers.

        A folder without a topic id, which a power cut may leave, is adopted by the partition of its
        name if no other folder belongs to it. A folder of a deleted topic, or of a topic with the
        same name and another id, is set aside (TI-1).
        """
        self._is_reconciled = True
        for name in self._directories.partitions():
            partition = self.find(*name)
            wanted = None if partition is None else partition.topic.topic_id
            for stray in self._strays(name, wanted):
                self._directories.set_aside(name, stray, now_ms=self._clock.now_ms())
                _log.warning("Set aside the folder of a stray partition: partition=%s", name)
        self._directories.adopt_futures(self._topic_id_of, now_ms=self._clock.now_ms())

    def _topic_id_of(self, name: TopicPartition) -> TopicId | None:
        partition = self.find(*name)
        return None if partition is None else partition.topic.topic_id

    def _strays(self, name: TopicPartition, wanted: TopicId | None) -> list[LogDirectory]:
        """Return directories with a folder of another topic id; adopt the right one."""
        candidates = self._directories.candidates(name)
        found = self._directories.topic_ids(name)
        strays = [each for each, topic_id in found.items() if topic_id not in (None, wanted)]
        nameless = [each for each, topic_id in found.items() if topic_id is None]
        has_all = len(found) == len(candidates)
        if nameless and has_all and wanted is not None and wanted not in found.values():
            nameless.pop(0).adopt(name, wanted)
        return strays + nameless
