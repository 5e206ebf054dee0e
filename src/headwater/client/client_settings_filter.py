"""Which settings of a file are for which client: Kafka's tools share one among all.

What a reader would get wrong: a name that no client knows is kept, so that whoever is given it
refuses it. Only what is known to be another client's is left out.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from headwater.client.admin.admin_calls import AdminSettings
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.serialization.schema_registry_settings import is_registrys
from headwater.client.settings import is_plugin, kafka_name

if TYPE_CHECKING:
    from headwater.client.settings import ClientSettings

_ALL = (AdminSettings, ConsumerSettings, ProducerSettings)


def consumer_part(shared: Mapping[str, str]) -> dict[str, str]:
    """What is a consumer's, or an unknown word."""
    return _part(ConsumerSettings, shared)


def producer_part(shared: Mapping[str, str]) -> dict[str, str]:
    """What is a producer's, or an unknown word."""
    return _part(ProducerSettings, shared)


def _part(cls: "type[ClientSettings]", shared: Mapping[str, str]) -> dict[str, str]:
    # Code cannot stand in a file: Java's names of classes mean nothing here.
    own = {kafka_name(each.name) for each in fields(cls) if not is_plugin(each)}
    others = {kafka_name(each.name) for every in _ALL for each in fields(every)} - own
    return {
        name: value
        for name, value in shared.items()
        if name not in others and not is_registrys(name)
    }
