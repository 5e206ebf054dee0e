"""Settings of this broker that change while it runs.

What a reader would get wrong: they are part of the cluster's image, so they also outlive the
process. Whoever obeys one is told at the start, and again with every change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.cluster.effective import StaticConfig, broker_settings_for
from headwater.cluster.facts import ConfigsReplaced, Fact
from headwater.cluster.image import ClusterImage
from headwater.model.broker_settings import BrokerSettings
from headwater.model.config_terms import ResourceType


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
        settings = broker_settings_for(image, self.static)
        for obey in self.obeying:
            obey(settings)


def _is_of_brokers(fact: Fact) -> bool:
    return isinstance(fact, ConfigsReplaced) and fact.resource.resource_type is ResourceType.BROKER
