"""One term of this broker as the controller: what it reads, follows and writes.

The epoch's node is the fence: every write checks its version, so that a controller that has been
replaced without knowing it changes nothing. All writes go through one queue (`writing`), because
each is drafted on the outcome of those before it.

Note: the store reads topics only once, in `read`. A topic that a tool creates directly in ZooKeeper
is found at the next election.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from headwater.cluster.facts import (
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    Fact,
    LogDirectoryFailed,
    TopicDeletionBegun,
    apply,
)
from headwater.cluster.image import Broker, ClusterImage, Topic, Version
from headwater.cluster.store import Failed
from headwater.cluster.zookeeper import acl_nodes, contents, paths
from headwater.cluster.zookeeper.ending import end_registration
from headwater.cluster.zookeeper.following import (
    BrokersFollowed,
    ChildrenFollowed,
    Complained,
)
from headwater.cluster.zookeeper.gathering import Gathering
from headwater.cluster.zookeeper.keeper import Delete, Keeper, Problem, Stat
from headwater.cluster.zookeeper.operations import Drafting
from headwater.cluster.zookeeper.reading import Findings, read_all
from headwater.cluster.zookeeper.writing import Writing
from headwater.model.failures import ControllerFenced, HeadwaterError
from headwater.model.ids import NodeId

NOTE_LIFE_MS: Final = 15 * 60 * 1_000
"""How long a note of a changed config is left for brokers that come back: Kafka does this (3.9)."""


class Term:
    """See the module. `begin` once, then `read` once, then `write`; `end` once."""

    def __init__(
        self,
        keeper: Keeper,
        *,
        node_id: NodeId,
        cluster_id: str,
        epoch: int,
        epoch_version: int,
        told: Callable[[Sequence[Fact]], None],
        failed: Callable[[HeadwaterError], None],
        complained: Complained,
    ) -> None:
        self._keeper = keeper
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._told = told
        self._complained = complained
        self.version = Version(epoch, 0)
        self._writing = Writing(keeper, epoch_version=epoch_version, failed=failed)
        self._drafting: Drafting | None = None
        self._brokers: dict[NodeId, Broker] | None = None
        self._when_brokers_known: list[Callable[[], None]] = []
        self._follow_brokers = BrokersFollowed(
            keeper, told=self._brokers_changed, complained=complained
        )
        self._is_over = False
        self._looks = 0
        self._follow_directories = ChildrenFollowed(
            keeper, paths.DIRECTORY_EVENTS, told=self._directories_changed
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
            self._keeper,
            then=lambda findings: self._with_brokers(lambda: self._take(findings, then, otherwise)),
            otherwise=otherwise,
        )

    def write(
        self,
        facts: Sequence[Fact],
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
        operations = self._drafting.operations(facts)
        self._writing.write(operations, self.version, then=then, otherwise=otherwise)

    def end_registration(self, broker: Broker) -> None:
        """The process of a broker is gone, but not its session."""
        end_registration(self._keeper, broker, fence=self._writing.fence)

    def note_configs(self, facts: Sequence[Fact]) -> None:
        """Kafka's tools give users configs past the controller, which makes nodes.

        Those of users, clients and addresses are never removed, so whoever hears of one late errs
        no more than whoever hears of it in time.
        """
        if self._drafting is None:
            return
        changed = [fact.resource for fact in facts if isinstance(fact, ConfigsReplaced)]
        for resource in changed:
            if not resource.resource_type.is_named_by_requests:
                self._drafting.note_config(resource)

    def purge_notes(self, now_ms: int) -> None:
        """Remove notes of what has changed that everybody has had time to read."""
        gathering = Gathering(self._keeper, then=_pass, otherwise=self._complained)
        for folder in (
            paths.CONFIG_CHANGES,
            acl_nodes.LITERAL_CHANGES,
            acl_nodes.EXTENDED_CHANGES,
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
        self, findings: Findings, then: Callable[[ClusterImage], None], otherwise: Failed
    ) -> None:
        assert self._brokers is not None
        try:
            facts = findings.facts()
        except HeadwaterError as error:
            otherwise(error)
            return
        facts += map(BrokerRegistered, self._brokers.values())
        facts.append(ControllerElected(self._node_id))
        image = apply(ClusterImage(cluster_id=self._cluster_id), facts, self.version)
        self._drafting = Drafting(
            image,
            node_id=self._node_id,
            controller_epoch=self.version.controller_epoch,
            nodes=findings.nodes,
        )
        then(image)
        self._look_for_deletions()
        self._follow_directories.look()

    def _brokers_changed(self, found: dict[NodeId, Broker]) -> None:
        before, self._brokers = self._brokers, found
        waiting, self._when_brokers_known = self._when_brokers_known, []
        for then in waiting:
            then()
        if before is not None and self._drafting is not None:
            facts = _comings_and_goings(before, found)
            if facts:
                self._told(facts)

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
            self._keeper.children(
                paths.DELETE_TOPICS,
                then=partial(self._found_deletions, topics, known, done),
                otherwise=lambda problem: _pass() if problem is Problem.EXPIRED else done(),
                watch=hint,
            )

        self._writing.look(begin)

    def _found_deletions(
        self,
        topics: Mapping[str, Topic],
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
                self._remove(paths.deletion(name))
        self._drafting.note_deletions(asked)
        if asked:
            self._told([TopicDeletionBegun(name) for name in asked])
        done()

    def _directories_changed(self, names: list[str]) -> None:
        """Brokers have lost log directories. What has been told is taken away."""
        found: dict[NodeId, None] = {}
        gathering = Gathering(
            self._keeper,
            then=lambda: self._told([LogDirectoryFailed(node_id) for node_id in found]),
            otherwise=self._complained,
        )
        for name in names:
            path = f"{paths.DIRECTORY_EVENTS}/{name}"
            gathering.data(path, partial(self._take_directory, found, path), missing=_pass)
        if names:
            gathering.seal()

    def _take_directory(self, found: dict[NodeId, None], path: str, data: bytes, _: Stat) -> None:
        found[contents.read_directory_event(data)] = None
        self._remove(path)

    def _purge(self, gathering: Gathering, folder: str, oldest_ms: int, names: list[str]) -> None:
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
    before: Mapping[NodeId, Broker], after: Mapping[NodeId, Broker]
) -> list[Fact]:
    """Those who went first: one that came again has gone in between."""
    facts: list[Fact] = [
        BrokerGone(node_id)
        for node_id, broker in before.items()
        if node_id not in after or after[node_id].epoch != broker.epoch
    ]
    facts += [
        BrokerRegistered(broker)
        for node_id, broker in after.items()
        if before.get(node_id) != broker
    ]
    return facts


def _pass() -> None:
    """Nothing is left to do."""


def _ignore(_: object) -> None:
    """A failure ends the term, which is told in another way."""
