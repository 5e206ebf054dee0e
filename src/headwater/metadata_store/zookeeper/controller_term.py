"""One term of this broker as the controller: what it reads, follows and writes.

The epoch's node is the fence: every write checks its version, so that a controller that has been
replaced without knowing it changes nothing. All writes go through one queue (`change_writer`),
because each is drafted on the outcome of those before it.

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
    Complained,
)
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Delete,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)

NOTE_LIFE_MS: Final = 15 * 60 * 1_000
"""How long a note of a changed config is left for brokers that come back: Kafka does this (3.9)."""


class ControllerTerm:
    """See the module. `begin` once, then `read` once, then `write`; `end` once."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        node_id: NodeId,
        cluster_id: str,
        epoch: int,
        epoch_version: int,
        told: Callable[[Sequence[MetadataChange]], None],
        failed: Callable[[HeadwaterError], None],
        complained: Complained,
    ) -> None:
        self._zk_client = zk_client
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._told = told
        self._complained = complained
        self.version = Version(epoch, 0)
        self._writing = FencedChangeWriter(zk_client, epoch_version=epoch_version, failed=failed)
        self._drafting: ChangeOperations | None = None
        self._brokers: dict[NodeId, BrokerRegistration] | None = None
        self._when_brokers_known: list[Callable[[], None]] = []
        self._follow_brokers = BrokersWatch(
            zk_client, told=self._brokers_changed, complained=complained
        )
        self._is_over = False
        self._looks = 0
        self._follow_directories = ChildrenWatch(
            zk_client, znode_paths.DIRECTORY_EVENTS, told=self._directories_changed
        )

    def begin(self) -> None:
        self._follow_brokers.look()

    def end(self, error: HeadwaterError) -> None:
        """Nothing more is told, and what is not written yet fails."""
        self._is_over = True
        for followed in (self._follow_brokers, self._follow_directories):
            followed.stop()
        self._writing.end(error)

    def read(self, *, then: Callable[[ClusterImage], None], otherwise: Failed) -> None:
        """Everything. Whoever comes and goes from then on is told."""
        read_all(
            self._zk_client,
            then=lambda findings: self._with_brokers(lambda: self._take(findings, then, otherwise)),
            otherwise=otherwise,
        )

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        otherwise: Failed,
    ) -> None:
        assert self._drafting is not None, "whoever decides has read"
        if fence != self.version:
            otherwise(ControllerFenced(f"decided on {fence}, but {self.version} is the newest"))
            return
        self.version = fence._replace(sequence=fence.sequence + 1)
        operations = self._drafting.operations(changes)
        self._writing.write(operations, self.version, then=then, otherwise=otherwise)

    def end_registration(self, broker: BrokerRegistration) -> None:
        """The process of a broker is gone, but not its session."""
        end_registration(self._zk_client, broker, fence=self._writing.fence)

    def note_configs(self, changes: Sequence[MetadataChange]) -> None:
        """Kafka's tools give users configs past the controller, which makes nodes.

        Those of users, clients and addresses are never removed, so whoever hears of one late errs
        no more than whoever hears of it in time.
        """
        if self._drafting is None:
            return
        changed = [change.resource for change in changes if isinstance(change, ConfigsReplaced)]
        for resource in changed:
            if not resource.resource_type.is_named_by_requests:
                self._drafting.note_config(resource)

    def purge_notes(self, now_ms: int) -> None:
        """Remove notes of what has changed that everybody has had time to read."""
        gathering = ParallelReads(self._zk_client, then=_pass, otherwise=self._complained)
        for folder in (
            znode_paths.CONFIG_CHANGES,
            acl_znodes.LITERAL_CHANGES,
            acl_znodes.EXTENDED_CHANGES,
        ):
            gathering.children(
                folder, partial(self._purge, gathering, folder, now_ms - NOTE_LIFE_MS)
            )
        gathering.seal()

    # How it is done.

    def _with_brokers(self, then: Callable[[], None]) -> None:
        if self._brokers is None:
            self._when_brokers_known.append(then)
        else:
            then()

    def _take(
        self, findings: ClusterContents, then: Callable[[ClusterImage], None], otherwise: Failed
    ) -> None:
        assert self._brokers is not None
        try:
            changes = findings.changes()
        except HeadwaterError as error:
            otherwise(error)
            return
        changes += map(BrokerRegistered, self._brokers.values())
        changes.append(ControllerElected(self._node_id))
        image = apply(ClusterImage(cluster_id=self._cluster_id), changes, self.version)
        self._drafting = ChangeOperations(
            image,
            node_id=self._node_id,
            controller_epoch=self.version.controller_epoch,
            nodes=findings.nodes,
        )
        then(image)
        self._look_for_deletions()
        self._follow_directories.look()

    def _brokers_changed(self, found: dict[NodeId, BrokerRegistration]) -> None:
        before, self._brokers = self._brokers, found
        waiting, self._when_brokers_known = self._when_brokers_known, []
        for then in waiting:
            then()
        if before is not None and self._drafting is not None:
            changes = _comings_and_goings(before, found)
            if changes:
                self._told(changes)

    def _look_for_deletions(self) -> None:
        """Look for topics that a tool wants deleted, now and after every change.

        The draft of this moment is what the nodes will be when the look has its turn in the queue,
        so whatever differs from it then was made by a tool.
        """
        if self._is_over:
            return
        assert self._drafting is not None
        topics, known = self._drafting.image.topics, dict(self._drafting.deletions)
        self._looks += 1
        number = self._looks

        def hint() -> None:
            # A connection that is lost may leave an older watch behind.
            if number == self._looks:
                self._look_for_deletions()

        def begin(done: Callable[[], None]) -> None:
            self._zk_client.children(
                znode_paths.DELETE_TOPICS,
                then=partial(self._found_deletions, topics, known, done),
                otherwise=lambda problem: _pass() if problem is ZooKeeperError.EXPIRED else done(),
                watch=hint,
            )

        self._writing.look(begin)

    def _found_deletions(
        self,
        topics: Mapping[str, TopicImage],
        known: Mapping[str, None],
        done: Callable[[], None],
        names: list[str],
    ) -> None:
        if self._is_over:
            return
        assert self._drafting is not None
        asked: list[str] = []
        for name in sorted(names):
            topic, now = topics.get(name), self._drafting.image.topics.get(name)
            if name in known:
                continue
            if topic is not None and now is not None and topic.topic_id == now.topic_id:
                asked.append(name)
            elif name not in self._drafting.deletions:
                # Else a topic that is created later under this name would be deleted at once.
                self._remove(znode_paths.deletion(name))
        self._drafting.note_deletions(asked)
        if asked:
            self._told([TopicDeletionBegun(name) for name in asked])
        done()

    def _directories_changed(self, names: list[str]) -> None:
        """Brokers have lost log directories. What has been told is taken away."""
        found: dict[NodeId, None] = {}
        gathering = ParallelReads(
            self._zk_client,
            then=lambda: self._told([LogDirectoryFailed(node_id) for node_id in found]),
            otherwise=self._complained,
        )
        for name in names:
            path = f"{znode_paths.DIRECTORY_EVENTS}/{name}"
            gathering.data(path, partial(self._take_directory, found, path), missing=_pass)
        if names:
            gathering.seal()

    def _take_directory(self, found: dict[NodeId, None], path: str, data: bytes, _: Stat) -> None:
        found[znode_data.read_directory_event(data)] = None
        self._remove(path)

    def _purge(
        self, gathering: ParallelReads, folder: str, oldest_ms: int, names: list[str]
    ) -> None:
        for name in names:
            path = f"{folder}/{name}"
            gathering.data(path, partial(self._purge_one, path, oldest_ms), missing=_pass)

    def _purge_one(self, path: str, oldest_ms: int, _: bytes, stat: Stat) -> None:
        if stat.created_ms < oldest_ms:
            self._remove(path)

    def _remove(self, path: str) -> None:
        """Remove a node that brokers or tools may remove as well."""
        self._writing.write(
            [Delete(path=path, may_be_gone=True)], self.version, then=_ignore, otherwise=_ignore
        )


def _comings_and_goings(
    before: Mapping[NodeId, BrokerRegistration], after: Mapping[NodeId, BrokerRegistration]
) -> list[MetadataChange]:
    """Those who went first: one that came again has gone in between."""
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


def _pass() -> None:
    """Nothing is left to do."""


def _ignore(_: object) -> None:
    """A failure ends the term, which is told in another way."""
