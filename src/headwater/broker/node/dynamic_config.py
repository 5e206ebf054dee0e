"""Apply changes of dynamic broker configs (DynamicBrokerConfig).

Dynamic configs are part of the cluster's metadata, so they survive a restart. Components get the
settings at startup and again with every change. A value that this broker cannot apply, because the
controller that accepted it is another broker, is logged as an error and does not stop the broker,
which could otherwise never start again. Kafka 4.1 does the same.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.changes import ConfigsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage, ConfigResource
from headwater.metadata.effective_configs import (
    StaticConfig,
    broker_settings_for,
    unknown_configs,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DynamicConfig:
    """Passes changed settings to the components that use them."""

    static: StaticConfig
    appliers: Sequence[Callable[[BrokerSettings], None]]

    def changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        """Apply metadata changes, if any is a broker config; warn of unknown configs."""
        for change in changes:
            if isinstance(change, ConfigsReplaced):
                _warn_of_unknown(change.resource, change.values)
        if any(_is_of_brokers(change) for change in changes):
            self._apply(image)

    def load(self, image: ClusterImage) -> None:
        """Apply the configs at startup."""
        for resource, values in image.configs.items():
            _warn_of_unknown(resource, values)
        self._apply(image)

    def _apply(self, image: ClusterImage) -> None:
        try:
            settings = broker_settings_for(image, self.static)
        except InvalidSetting as error:
            _log.error("Dynamic broker configs were not applied: error=%s", error)
            return
        for apply_settings in self.appliers:
            apply_settings(settings)


def _warn_of_unknown(resource: ConfigResource, values: Mapping[str, str]) -> None:
    for reason in unknown_configs(resource, values).values():
        _log.warning(
            "Ignoring a config: resource=%s-%s reason=%s",
            resource.resource_type.name.lower(),
            resource.name or "default",
            reason,
        )


def _is_of_brokers(change: MetadataChange) -> bool:
    return (
        isinstance(change, ConfigsReplaced) and change.resource.resource_type is ResourceType.BROKER
    )
