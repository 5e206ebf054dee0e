"""Configs and features as ZooKeeper has them, kept up to date for every broker.

Changes are announced under /config/changes, where any broker or tool puts a note; the configs
themselves are read again then. What a reader would get wrong: with a new session everything is read
anew, and only what differs from before is told, so that a session that was lost costs no news.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.common.exceptions import HeadwaterError
from headwater.metadata.changes import ConfigsReplaced, FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.cluster_reader import ClusterContents, read_configs
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.znode_watches import (
    Complained,
    NodeWatch,
    NotificationsWatch,
)
from headwater.metadata_store.zookeeper.zookeeper_client import Stat, ZooKeeperClient

ConfigsTold = Callable[[Sequence[MetadataChange]], None]

_Configs = dict[ConfigResource, dict[str, str]]


class ConfigCache:
    """Follows from `begin` to `stop`, and again from the next `begin` on."""

    def __init__(
        self, zk_client: ZooKeeperClient, *, told: ConfigsTold, complained: Complained
    ) -> None:
        """`told` hears of changes after the first whole reading."""
        self._zk_client = zk_client
        self._told = told
        self._complained = complained
        self._configs: _Configs = {}
        self._features: dict[str, int] = {}
        self._is_known = False
        self._waiting: list[ConfigsTold] = []
        self._notes: NotificationsWatch | None = None
        self._feature: NodeWatch | None = None

    def begin(self) -> None:
        """A session has begun."""
        self.stop()
        # Followed before they are read: what changes meanwhile is read twice rather than never.
        self._notes = NotificationsWatch(
            self._zk_client,
            znode_paths.CONFIG_CHANGES,
            told=self._announced,
            complained=self._complained,
        )
        self._notes.look()
        read_configs(self._zk_client, then=self._all_read, otherwise=self._complained)

    def stop(self) -> None:
        for each in (self._notes, self._feature):
            if each is not None:
                each.stop()
        self._notes = self._feature = None

    def all(self, then: ConfigsTold) -> None:
        """Everything as facts, as soon as it is known."""
        if self._is_known:
            then(self._changes())
        else:
            self._waiting.append(then)

    def _changes(self) -> list[MetadataChange]:
        return ClusterContents(configs=self._configs, features=self._features).config_changes()

    def _all_read(self, findings: ClusterContents) -> None:
        changes = self._take(findings.configs, findings.features, is_all=True)
        was_known, self._is_known = self._is_known, True
        if was_known and changes:
            self._told(changes)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._changes())
        if self._feature is None and self._notes is not None:
            self._feature = NodeWatch(
                self._zk_client, znode_paths.FEATURES, told=self._features_changed
            )
            self._feature.look()

    def _announced(self, notes: Sequence[bytes]) -> None:
        """Somebody has changed something: read it."""
        changed: _Configs = {}
        gathering = ParallelReads(
            self._zk_client,
            then=lambda: self._tell(self._take(changed, self._features, is_all=False)),
            otherwise=self._complained,
        )
        for entity in dict.fromkeys(znode_data.read_config_change(note) for note in notes):
            resource = znode_paths.resource_at(entity)
            if resource is not None:
                gathering.data(
                    f"/config/{entity}",
                    partial(_take_config, changed, resource),
                    missing=partial(changed.__setitem__, resource, {}),
                )
        gathering.seal()

    def _features_changed(self, data: bytes | None) -> None:
        try:
            features = {} if data is None else znode_data.read_features(data)
        except HeadwaterError as error:
            self._complained(error)
            return
        self._tell(self._take({}, features, is_all=False))

    def _tell(self, changes: list[MetadataChange]) -> None:
        if changes and self._is_known:
            self._told(changes)

    def _take(
        self, configs: _Configs, features: dict[str, int], *, is_all: bool
    ) -> list[MetadataChange]:
        """Keep what was read; the facts are what differs from before."""
        gone: _Configs = {}
        if is_all:
            gone = {resource: {} for resource in self._configs if resource not in configs}
        changes: list[MetadataChange] = [
            ConfigsReplaced(resource, values)
            for resource, values in {**gone, **configs}.items()
            if values != self._configs.get(resource, {})
        ]
        changes += [
            FeatureFinalized(name, features.get(name, 0))
            for name in sorted({*features, *self._features})
            if features.get(name, 0) != self._features.get(name, 0)
        ]
        self._configs = {**({} if is_all else self._configs), **configs}
        self._features = features
        return changes


def _take_config(changed: _Configs, resource: ConfigResource, data: bytes, _: Stat) -> None:
    changed[resource] = znode_data.read_configs(data)
