"""Cache of configs and features in ZooKeeper, on every broker.

Changes are announced by notification znodes under /config/changes, written by any broker or tool;
the configs are then read again.

Note: with a new session everything is read again and only differences are reported, so that no
change is missed.
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
    ErrorListener,
    NodeWatch,
    NotificationsWatch,
)
from headwater.metadata_store.zookeeper.zookeeper_client import Stat, ZooKeeperClient

ConfigListener = Callable[[Sequence[MetadataChange]], None]

_Configs = dict[ConfigResource, dict[str, str]]


class ConfigCache:
    """Watches from `begin` to `stop`, and again from the next `begin` on."""

    def __init__(
        self, zk_client: ZooKeeperClient, *, on_change: ConfigListener, on_error: ErrorListener
    ) -> None:
        """`on_change` is called with changes after the first complete read."""
        self._zk_client = zk_client
        self._on_change = on_change
        self._on_error = on_error
        self._configs: _Configs = {}
        self._features: dict[str, int] = {}
        self._is_known = False
        self._waiting: list[ConfigListener] = []
        self._notifications: NotificationsWatch | None = None
        self._feature: NodeWatch | None = None

    def begin(self) -> None:
        """Start after a session began."""
        self.stop()
        # Watch before reading: a change in between is read twice instead of never.
        self._notifications = NotificationsWatch(
            self._zk_client,
            znode_paths.CONFIG_CHANGES,
            on_change=self._announced,
            on_error=self._on_error,
        )
        self._notifications.read()
        read_configs(self._zk_client, then=self._all_read, on_error=self._on_error)

    def stop(self) -> None:
        for each in (self._notifications, self._feature):
            if each is not None:
                each.stop()
        self._notifications = self._feature = None

    def all(self, then: ConfigListener) -> None:
        """Call `then` with all configs and features as changes, as soon as they are known."""
        if self._is_known:
            then(self._changes())
        else:
            self._waiting.append(then)

    def _changes(self) -> list[MetadataChange]:
        return ClusterContents(configs=self._configs, features=self._features).config_changes()

    def _all_read(self, contents: ClusterContents) -> None:
        changes = self._take(contents.configs, contents.features, is_all=True)
        was_known, self._is_known = self._is_known, True
        if was_known and changes:
            self._on_change(changes)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._changes())
        if self._feature is None and self._notifications is not None:
            self._feature = NodeWatch(
                self._zk_client, znode_paths.FEATURES, on_change=self._features_changed
            )
            self._feature.read()

    def _announced(self, notes: Sequence[bytes]) -> None:
        """Read the announced configs."""
        changed: _Configs = {}
        reads = ParallelReads(
            self._zk_client,
            then=lambda: self._notify(self._take(changed, self._features, is_all=False)),
            on_error=self._on_error,
        )
        for entity in dict.fromkeys(znode_data.read_config_change(note) for note in notes):
            resource = znode_paths.resource_at(entity)
            if resource is not None:
                reads.data(
                    f"/config/{entity}",
                    partial(_take_config, changed, resource),
                    missing=partial(changed.__setitem__, resource, {}),
                )
        reads.finish()

    def _features_changed(self, data: bytes | None) -> None:
        try:
            features = {} if data is None else znode_data.read_features(data)
        except HeadwaterError as error:
            self._on_error(error)
            return
        self._notify(self._take({}, features, is_all=False))

    def _notify(self, changes: list[MetadataChange]) -> None:
        if changes and self._is_known:
            self._on_change(changes)

    def _take(
        self, configs: _Configs, features: dict[str, int], *, is_all: bool
    ) -> list[MetadataChange]:
        """Store what was read; return what differs from before."""
        removed: _Configs = {}
        if is_all:
            removed = {resource: {} for resource in self._configs if resource not in configs}
        changes: list[MetadataChange] = [
            ConfigsReplaced(resource, values)
            for resource, values in {**removed, **configs}.items()
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
