"""Sync topics to the target cluster: new topics, partition counts and configs.

Note: configs that only make sense in the source cluster are not synced, nor is
`message.timestamp.type`: with LogAppendTime a copy would show when it was copied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.client import Admin, ConfigResource, NewTopic
from headwater.client.admin.descriptions import ConfigEntry, TopicDescription
from headwater.client.errors import SomeFailed, TopicAlreadyExists, UnknownTopicOrPartition
from headwater.common.config_types import ConfigSource
from headwater.mirror.topic_naming import Naming, TopicFilter

# MirrorMaker's DefaultConfigPropertyFilter excludes the same ones.
EXCLUDED_CONFIGS: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPair:
    """A source topic and its copy."""

    source: TopicDescription
    target: TopicDescription

    @property
    def ids(self) -> str:
        return f"{self.source.topic_id}/{self.target.topic_id}"


@dataclass(slots=True)
class TopicSync:
    """Sync topics between two clusters. The caller closes both clients."""

    source: Admin
    target: Admin
    wanted: TopicFilter
    naming: Naming
    replication_factor: int = -1

    def originals(self) -> dict[str, TopicDescription]:
        """The topics to copy, as they are now."""
        names = [name for name in self.source.list_topics() if self.wanted.has(name)]
        return _described(self.source, [each for each in names if self.naming.is_possible(each)])

    def sync(self, originals: Mapping[str, TopicDescription]) -> dict[str, TopicPair]:
        """Create and extend the copies; return all pairs by source topic."""
        names = {name: self.naming.of_copy(name) for name in originals}
        there = set(self.target.list_topics())
        missing = [name for name in originals if names[name] not in there]
        if missing:
            settings = self._settings_of(self.source, missing)
            self._make(
                [
                    NewTopic(
                        name=names[name],
                        partitions=len(originals[name].partitions),
                        replication_factor=self.replication_factor,
                        configs=settings[name],
                    )
                    for name in missing
                ]
            )
        copies = _described(self.target, names.values())
        grown = {
            names[name]: len(original.partitions)
            for name, original in originals.items()
            if names[name] in copies
            and len(copies[names[name]].partitions) < len(original.partitions)
        }
        if grown:
            self.target.create_partitions(grown)
            copies |= _described(self.target, grown)
        return {
            name: TopicPair(source=original, target=copies[names[name]])
            for name, original in originals.items()
            if names[name] in copies
        }

    def sync_configs(self, pairs: Mapping[str, TopicPair]) -> dict[str, dict[str, str | None]]:
        """Sync configs; return the changes by copy."""
        if not pairs:
            return {}
        originals = self._settings_of(self.source, list(pairs))
        copies = self._settings_of(self.target, [pair.target.name for pair in pairs.values()])
        changed = {}
        for name, pair in pairs.items():
            changes = setting_changes(originals[name], copies[pair.target.name])
            if changes:
                changed[pair.target.name] = changes
        if changed:
            self.target.alter_configs(
                {ConfigResource.topic(name): changes for name, changes in changed.items()}
            )
        return changed

    def _make(self, topics: list[NewTopic]) -> None:
        try:
            self.target.create_topics(topics)
        except TopicAlreadyExists:
            return
        except SomeFailed as error:
            others = [
                each for each in error.errors.values() if not isinstance(each, TopicAlreadyExists)
            ]
            if others:
                raise others[0] from error

    @staticmethod
    def _settings_of(admin: Admin, topics: list[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource.topic(name) for name in topics]
        described = admin.describe_configs(resources)
        return {each.name: synced_configs(entries) for each, entries in described.items()}


def synced_configs(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Configs that are set on the topic itself, without `EXCLUDED_CONFIGS`."""
    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.source == ConfigSource.TOPIC_CONFIG
        and entry.value is not None
        and name not in EXCLUDED_CONFIGS
    }


def setting_changes(original: Mapping[str, str], copy: Mapping[str, str]) -> dict[str, str | None]:
    """Changes that make a copy's configs equal to the source's; None removes a config."""
    changes: dict[str, str | None] = {
        name: value for name, value in original.items() if copy.get(name) != value
    }
    return changes | {name: None for name in copy if name not in original}


def _described(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics, omitting topics that were just deleted."""
    chosen = list(names)
    if not chosen:
        return {}
    try:
        return admin.describe_topics(chosen)
    except SomeFailed as error:
        return {str(name): found for name, found in error.results.items()}
    except UnknownTopicOrPartition:
        return {}
