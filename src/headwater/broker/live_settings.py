"""Settings of this broker that change while it runs.

What a reader would get wrong: they are part of the cluster's image, so they also outlive the
process. Whoever obeys one is told at the start, and again with every change. What cannot be obeyed
here, because the controller that took it is another broker, is an error in the log and not the end:
else this broker could never be started again. Kafka does this (4.1).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.cluster.effective import StaticConfig, broker_settings_for
from headwater.cluster.facts import ConfigsReplaced, Fact
from headwater.cluster.image import ClusterImage
from headwater.model.broker_settings import BrokerSettings
from headwater.model.config_terms import ResourceType
from headwater.model.failures import InvalidSetting

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Tells those who obey settings what these are now."""

    static: StaticConfig
    obeying: Sequence[Callable[[BrokerSettings], None]]

    def changed(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        """The cluster has agreed on something, of settings perhaps."""
        if any(_is_of_brokers(fact) for fact in facts):
            self.tell(image)

    def tell(self, image: ClusterImage) -> None:
        try:
            settings = broker_settings_for(image, self.static)
        except InvalidSetting as error:
            _log.error("settings that were set while brokers run are not obeyed here: %s", error)
            return
        for obey in self.obeying:
            obey(settings)


def _is_of_brokers(fact: Fact) -> bool:
    return isinstance(fact, ConfigsReplaced) and fact.resource.resource_type is ResourceType.BROKER
