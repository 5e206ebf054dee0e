"""Select one client's settings from a properties file that clients share.

Note: unknown names are kept, so that the client rejects them. Only settings of other clients are
removed.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from headwater.client.admin.admin_calls import AdminSettings
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.serialization.schema_registry_settings import is_registry_setting
from headwater.client.settings import is_plugin, kafka_name

if TYPE_CHECKING:
    from headwater.client.settings import ClientSettings

_ALL = (AdminSettings, ConsumerSettings, ProducerSettings)


def consumer_settings(shared: Mapping[str, str]) -> dict[str, str]:
    """The settings of consumers, and unknown names."""
    return _part(ConsumerSettings, shared)


def producer_settings(shared: Mapping[str, str]) -> dict[str, str]:
    """The settings of producers, and unknown names."""
    return _part(ProducerSettings, shared)


def _part(cls: "type[ClientSettings]", shared: Mapping[str, str]) -> dict[str, str]:
    # A file cannot name Python code, and Java class names mean nothing here.
    own = {kafka_name(each.name) for each in fields(cls) if not is_plugin(each)}
    others = {kafka_name(each.name) for every in _ALL for each in fields(every)} - own
    return {
        name: value
        for name, value in shared.items()
        if name not in others and not is_registry_setting(name)
    }
