"""Which settings are in force, out of all the places where one can be set.

A broker's own dynamic value wins over the cluster's default, that over `server.properties`, that
over the default. A topic's own value wins over all of these, which reach it by their synonyms.
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
    why_unknown,
)
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.topic_settings import (
    KINDS,
    TopicSettings,
    why_unknown_for_topics,
)
from headwater.metadata.cluster_image import ALL_BROKERS, ClusterImage, ConfigResource


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """What a broker was started with: the texts as they were given, and their values."""

    # Some of them are secrets.
    texts: Mapping[str, str] = field(repr=False)
    settings: BrokerSettings

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        return cls(dict(texts), parse_broker_settings(texts))

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.settings.node_id)


def broker_texts(image: ClusterImage, static: StaticConfig) -> dict[str, str]:
    """Every text that is set for this broker, each from the place that wins.

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
        return {name: why_unknown_for_topics(name) for name in values if name not in KINDS}
    if resource.resource_type is ResourceType.BROKER:
        return {name: why_unknown(name) for name in values if known_setting(name) is None}
    return {}


def broker_settings_for(image: ClusterImage, static: StaticConfig) -> BrokerSettings:
    return parse_broker_settings(broker_texts(image, static))


def topic_defaults_for(image: ClusterImage, static: StaticConfig) -> TopicSettings:
    """The settings of a topic without its own; worth keeping while configs stay the same."""
    return topic_defaults(broker_texts(image, static))


def settings_for(image: ClusterImage, topic: str, defaults: TopicSettings) -> TopicSettings:
    """What the logs of a topic obey, over the defaults that `topic_defaults_for` gave."""
    own = image.configs_of(ResourceType.TOPIC, topic)
    overrides = {name: text for name, text in own.items() if name in KINDS}
    if not overrides:
        return defaults
    try:
        return defaults.with_overrides(overrides)
    except InvalidSetting:
        # Each value was right when it was set, but broker defaults that came later contradict it.
        # The topic's own values were judged together, so they stand, over Kafka's defaults.
        return TopicSettings.parse(overrides)
