"""Parse `listeners` and `advertised.listeners`, and the settings of sockets."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.security_protocol import SecurityProtocol
from headwater.common.settings.broker_properties import protocols_by_listener
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata import cluster_image
from headwater.network.endpoint import Endpoint, parse_endpoints
from headwater.network.limits.connection_quotas import parse_overrides
from headwater.network.network_settings import NetworkSettings

_WILDCARDS: Final = ("", "0.0.0.0", "::")


def own_endpoints(settings: BrokerSettings) -> list[Endpoint]:
    """Return the endpoints to bind.

    Raises `InvalidSetting` for a listener without an entry in `listener.security.protocol.map`.
    """
    endpoints = parse_endpoints(",".join(settings.listeners))
    known = {pair.partition(":")[0].upper() for pair in settings.listener_security_protocol_map}
    for endpoint in endpoints:
        if endpoint.name not in known:
            raise InvalidSetting(
                f"listener {endpoint.name} has no security protocol: add it to "
                f"listener.security.protocol.map as {endpoint.name}:PLAINTEXT"
            )
    return endpoints


def protocol_of(settings: BrokerSettings, listener: str) -> SecurityProtocol:
    """Return a listener's security protocol, from the map or from its name."""
    return protocols_by_listener(settings).get(listener.upper()) or SecurityProtocol(listener)


def has_listener(settings: BrokerSettings, listener: str) -> bool:
    """Return whether the security protocol of a listener is known."""
    return listener.upper() in protocols_by_listener(settings)


def listener_of_brokers(settings: BrokerSettings, endpoints: Sequence[Endpoint]) -> str:
    """Return the inter-broker listener: as set, else the one named after its protocol."""
    names = [endpoint.name for endpoint in endpoints]
    wanted = settings.inter_broker_listener_name
    if wanted is None:
        plain = settings.security_inter_broker_protocol
        return plain if plain in names else names[0]
    if wanted.upper() not in names:
        raise InvalidSetting(f"inter.broker.listener.name is {wanted}, which is not in listeners")
    return wanted.upper()


def advertised_endpoints(settings: BrokerSettings, own: Sequence[Endpoint]) -> list[Endpoint]:
    """Return `advertised.listeners`, or the bound endpoints if it is not set."""
    if settings.advertised_listeners is None:
        return list(own)
    try:
        advertised_list = parse_endpoints(",".join(settings.advertised_listeners))
    except InvalidSetting as error:
        raise InvalidSetting(f"advertised.listeners: {error}") from error
    names = {endpoint.name for endpoint in own}
    for endpoint in advertised_list:
        if endpoint.name not in names:
            raise InvalidSetting(
                f"advertised.listeners has {endpoint.name}, which is not in listeners"
            )
    return advertised_list


def advertised(
    settings: BrokerSettings, bound: Sequence[Endpoint], host_name: Callable[[], str]
) -> tuple[cluster_image.BrokerEndpoint, ...]:
    """Return the endpoints for clients, with the host name for wildcard addresses."""
    advertised_list = advertised_endpoints(settings, bound)
    ports = {endpoint.name: endpoint.port for endpoint in bound}
    return tuple(
        cluster_image.BrokerEndpoint(
            listener=endpoint.name,
            host=host_name() if endpoint.host in _WILDCARDS else endpoint.host,
            port=endpoint.port or ports[endpoint.name],
            security_protocol=protocol_of(settings, endpoint.name),
        )
        for endpoint in advertised_list
    )


def network_settings(settings: BrokerSettings) -> NetworkSettings:
    """Return the part of a broker's settings that its sockets use."""
    own = {each.name for each in fields(BrokerSettings)}
    values = {
        each.name: getattr(settings, each.name)
        for each in fields(NetworkSettings)
        if each.name in own and each.name != "max_connections_per_ip_overrides"
    }
    overrides = parse_overrides(",".join(settings.max_connections_per_ip_overrides))
    return NetworkSettings(max_connections_per_ip_overrides=overrides, **values)
