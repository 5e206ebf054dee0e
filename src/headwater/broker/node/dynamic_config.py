"""Settings of this broker that change while it runs.

What a reader would get wrong: they are part of the cluster's image, so they also outlive the
process. Whoever obeys one is told at the start, and again with every change. What cannot be obeyed
here, because the controller that took it is another broker, is an error in the log and not the end:
else this broker could never be started again. Kafka does this (4.1).
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
    """Tells those who obey settings what these are now."""

    static: StaticConfig
    obeying: Sequence[Callable[[BrokerSettings], None]]

    def changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        """The cluster has agreed on something, of settings perhaps."""
        for change in changes:
            if isinstance(change, ConfigsReplaced):
                _warn_of_unknown(change.resource, change.values)
        if any(_is_of_brokers(change) for change in changes):
            self._tell(image)

    def tell(self, image: ClusterImage) -> None:
        """Take the configs of the start."""
        for resource, values in image.configs.items():
            _warn_of_unknown(resource, values)
        self._tell(image)

    def _tell(self, image: ClusterImage) -> None:
        try:
            settings = broker_settings_for(image, self.static)
        except InvalidSetting as error:
            _log.error("settings that were set while brokers run are not obeyed here: %s", error)
            return
        for obey in self.obeying:
            obey(settings)


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
