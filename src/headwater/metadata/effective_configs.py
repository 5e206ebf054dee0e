"""Effective settings from all config sources.

Precedence: dynamic config of the broker, dynamic cluster default, `server.properties`, default.
Topic configs override all of these, which apply to topics by their synonyms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import NodeId
from headwater.common.settings.broker_properties import (
    known_setting,
    parse_broker_settings,
    topic_defaults,
    unknown_setting_error,
)
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.topic_settings import (
    KINDS,
    TopicSettings,
    unknown_topic_setting_error,
)
from headwater.metadata.cluster_image import ALL_BROKERS, ClusterImage, ConfigResource


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """Settings that a broker was started with: texts and parsed values."""

    # Not in the repr, since some are secrets.
    texts: Mapping[str, str] = field(repr=False)
    settings: BrokerSettings

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        return cls(dict(texts), parse_broker_settings(texts))

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.settings.node_id)


def broker_texts(image: ClusterImage, static: StaticConfig) -> dict[str, str]:
    """Return all config texts of this broker by precedence.

    Dynamic configs with unknown names have no effect: see `unknown_configs`.
    """
    dynamic = {
        **image.configs_of(ResourceType.BROKER, ALL_BROKERS),
        **image.configs_of(ResourceType.BROKER, str(static.node_id)),
    }
    known = {name: text for name, text in dynamic.items() if known_setting(name) is not None}
    return {**static.texts, **known}


def unknown_configs(resource: ConfigResource, values: Mapping[str, str]) -> dict[str, str]:
    """The reason for each name that has no effect here, with the nearest known name.

    Kafka takes unknown broker configs, and knows topic configs that are not served here. On a
    ZooKeeper that Kafka has used they stay where they are.
    """
    if resource.resource_type is ResourceType.TOPIC:
        return {name: unknown_topic_setting_error(name) for name in values if name not in KINDS}
    if resource.resource_type is ResourceType.BROKER:
        return {name: unknown_setting_error(name) for name in values if known_setting(name) is None}
    return {}


def broker_settings_for(image: ClusterImage, static: StaticConfig) -> BrokerSettings:
    return parse_broker_settings(broker_texts(image, static))


def topic_defaults_for(image: ClusterImage, static: StaticConfig) -> TopicSettings:
    """Return the settings of a topic without overrides, for caching."""
    return topic_defaults(broker_texts(image, static))


def settings_for(image: ClusterImage, topic: str, defaults: TopicSettings) -> TopicSettings:
    """Return the settings of a topic; `defaults` come from `topic_defaults_for`."""
    own = image.configs_of(ResourceType.TOPIC, topic)
    overrides = {name: text for name, text in own.items() if name in KINDS}
    if not overrides:
        return defaults
    try:
        return defaults.with_overrides(overrides)
    except InvalidSetting:
        # The overrides were valid when set, but later broker defaults contradict them. They were
        # validated together, so apply them to Kafka's defaults.
        return TopicSettings.parse(overrides)
