"""One term of this broker as controller: its reads, watches and writes.

Every write checks the version of the epoch znode (the fence), so that a controller that was
replaced unnoticed changes nothing. All writes go through one queue (`change_writer`), because each
is drafted on the outcome of those before it.

Note: the store reads topics only once, in `read`. A topic that a tool creates directly in ZooKeeper
is found at the next election.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from headwater.common.exceptions import ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    LogDirectoryFailed,
    MetadataChange,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage, TopicImage, Version
from headwater.metadata.ports.metadata_store import Failed
from headwater.metadata_store.zookeeper import acl_znodes, znode_data, znode_paths
from headwater.metadata_store.zookeeper.change_operations import ChangeOperations
from headwater.metadata_store.zookeeper.change_writer import FencedChangeWriter
from headwater.metadata_store.zookeeper.cluster_reader import ClusterContents, read_all
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.stale_registrations import end_registration
from headwater.metadata_store.zookeeper.znode_watches import (
    BrokersWatch,
    ChildrenWatch,
    ErrorListener,
)
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Delete,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)

NOTIFICATION_RETENTION_MS: Final = 15 * 60 * 1_000
"""How long change notifications stay for brokers that reconnect, as in Kafka 3.9."""


class ControllerTerm:
    """Call `begin` once, then `read` once, then `write`; `end` once."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        node_id: NodeId,
        cluster_id: str,
        epoch: int,
        epoch_version: int,
        on_change: Callable[[Sequence[MetadataChange]], None],
        failed: Callable[[HeadwaterError], None],
        on_error: ErrorListener,
    ) -> None:
        self._zk_client = zk_client
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._on_change = on_change
        self._on_error = on_error
        self.version = Version(epoch, 0)
        self._writer = FencedChangeWriter(zk_client, epoch_version=epoch_version, failed=failed)
        self._draft: ChangeOperations | None = None
        self._brokers: dict[NodeId, BrokerRegistration] | None = None
        self._when_brokers_known: list[Callable[[], None]] = []
        self._follow_brokers = BrokersWatch(
            zk_client, on_change=self._brokers_changed, on_error=on_error
        )
        self._is_over = False
        self._reads = 0
        self._follow_directories = ChildrenWatch(
            zk_client, znode_paths.DIRECTORY_EVENTS, on_change=self._directories_changed
        )

    def begin(self) -> None:
        self._follow_brokers.read()

    def end(self, error: HeadwaterError) -> None:
        """Stop all watches and fail pending writes."""
        self._is_over = True
        for followed in (self._follow_brokers, self._follow_directories):
            followed.stop()
        self._writer.end(error)

    def read(self, *, then: Callable[[ClusterImage], None], on_error: Failed) -> None:
        """Read everything. From then on, broker changes are reported."""
        read_all(
            self._zk_client,
            then=lambda contents: self._with_brokers(lambda: self._take(contents, then, on_error)),
            on_error=on_error,
        )

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        assert self._draft is not None, "`read` must complete before `write`"
        if fence != self.version:
            on_error(
                ControllerFenced(f"decided on version {fence}, but the newest is {self.version}")
            )
            return
        self.version = fence._replace(sequence=fence.sequence + 1)
        operations = self._draft.operations(changes)
        self._writer.write(operations, self.version, then=then, on_error=on_error)

    def end_registration(self, broker: BrokerRegistration) -> None:
        """End the registration of a broker whose process has ended."""
        end_registration(self._zk_client, broker, fence=self._writer.fence)

    def add_configs(self, changes: Sequence[MetadataChange]) -> None:
        """Track config znodes of users that Kafka's tools create past the controller.

        Znodes of users, client ids and IP addresses are never deleted, so a late notification does
        no harm.
        """
        if self._draft is None:
            return
        changed = [change.resource for change in changes if isinstance(change, ConfigsReplaced)]
        for resource in changed:
            if not resource.resource_type.is_named_by_requests:
                self._draft.add_config(resource)

    def purge_notifications(self, now_ms: int) -> None:
        """Remove change notifications that all brokers have had time to read."""
        reads = ParallelReads(self._zk_client, then=_pass, on_error=self._on_error)
        for folder in (
            znode_paths.CONFIG_CHANGES,
            acl_znodes.LITERAL_CHANGES,
            acl_znodes.EXTENDED_CHANGES,
        ):
            reads.children(
                folder, partial(self._purge, reads, folder, now_ms - NOTIFICATION_RETENTION_MS)
            )
        reads.finish()

    # Implementation.

    def _with_brokers(self, then: Callable[[], None]) -> None:
        if self._brokers is None:
            self._when_brokers_known.append(then)
        else:
            then()

    def _take(
        self, contents: ClusterContents, then: Callable[[ClusterImage], None], on_error: Failed
    ) -> None:
        assert self._brokers is not None
        try:
            changes = contents.changes()
        except HeadwaterError as error:
            on_error(error)
            return
        changes += map(BrokerRegistered, self._brokers.values())
        changes.append(ControllerElected(self._node_id))
        image = apply(ClusterImage(cluster_id=self._cluster_id), changes, self.version)
        self._draft = ChangeOperations(
            image,
            node_id=self._node_id,
            controller_epoch=self.version.controller_epoch,
            nodes=contents.nodes,
        )
        then(image)
        self._look_for_deletions()
        self._follow_directories.read()

    def _brokers_changed(self, found: dict[NodeId, BrokerRegistration]) -> None:
        before, self._brokers = self._brokers, found
        waiting, self._when_brokers_known = self._when_brokers_known, []
        for then in waiting:
            then()
        if before is not None and self._draft is not None:
            changes = _broker_changes(before, found)
            if changes:
                self._on_change(changes)

    def _look_for_deletions(self) -> None:
        """Read /admin/delete_topics for tools' deletions, now and after changes.

        The draft of this moment is what the znodes will be when the read has its turn in the queue,
        so any difference comes from a tool.
        """
        if self._is_over:
            return
        assert self._draft is not None
        topics, known = self._draft.image.topics, dict(self._draft.deletions)
        self._reads += 1
        number = self._reads

        def on_change() -> None:
            # After a lost connection an older watch may still fire.
            if number == self._reads:
                self._look_for_deletions()

        def begin(done: Callable[[], None]) -> None:
            self._zk_client.children(
                znode_paths.DELETE_TOPICS,
                then=partial(self._found_deletions, topics, known, done),
                on_error=lambda problem: _pass() if problem is ZooKeeperError.EXPIRED else done(),
                watch=on_change,
            )

        self._writer.read_after_writes(begin)

    def _found_deletions(
        self,
        topics: Mapping[str, TopicImage],
        known: Mapping[str, None],
        done: Callable[[], None],
        names: list[str],
    ) -> None:
        if self._is_over:
            return
        assert self._draft is not None
        requested: list[str] = []
        for name in sorted(names):
            topic, now = topics.get(name), self._draft.image.topics.get(name)
            if name in known:
                continue
            if topic is not None and now is not None and topic.topic_id == now.topic_id:
                requested.append(name)
            elif name not in self._draft.deletions:
                # Otherwise a topic that is created later under this name would be deleted at once.
                self._remove(znode_paths.deletion(name))
        self._draft.add_deletions(requested)
        if requested:
            self._on_change([TopicDeletionBegun(name) for name in requested])
        done()

    def _directories_changed(self, names: list[str]) -> None:
        """Report failed log directories and remove their notifications."""
        found: dict[NodeId, None] = {}
        reads = ParallelReads(
            self._zk_client,
            then=lambda: self._on_change([LogDirectoryFailed(node_id) for node_id in found]),
            on_error=self._on_error,
        )
        for name in names:
            path = f"{znode_paths.DIRECTORY_EVENTS}/{name}"
            reads.data(path, partial(self._take_directory, found, path), missing=_pass)
        if names:
            reads.finish()

    def _take_directory(self, found: dict[NodeId, None], path: str, data: bytes, _: Stat) -> None:
        found[znode_data.read_directory_event(data)] = None
        self._remove(path)

    def _purge(self, reads: ParallelReads, folder: str, oldest_ms: int, names: list[str]) -> None:
        for name in names:
            path = f"{folder}/{name}"
            reads.data(path, partial(self._purge_one, path, oldest_ms), missing=_pass)

    def _purge_one(self, path: str, oldest_ms: int, _: bytes, stat: Stat) -> None:
        if stat.created_ms < oldest_ms:
            self._remove(path)

    def _remove(self, path: str) -> None:
        """Delete a znode that brokers or tools may delete as well."""
        self._writer.write(
            [Delete(path=path, may_be_missing=True)], self.version, then=_ignore, on_error=_ignore
        )


def _broker_changes(
    before: Mapping[NodeId, BrokerRegistration], after: Mapping[NodeId, BrokerRegistration]
) -> list[MetadataChange]:
    """Return broker changes, removals first: a restarted broker was gone."""
    changes: list[MetadataChange] = [
        BrokerGone(node_id)
        for node_id, broker in before.items()
        if node_id not in after or after[node_id].epoch != broker.epoch
    ]
    changes += [
        BrokerRegistered(broker)
        for node_id, broker in after.items()
        if before.get(node_id) != broker
    ]
    return changes


def _pass() -> None: ...


def _ignore(_: object) -> None:
    """A failed write ends the term, which is reported elsewhere."""
