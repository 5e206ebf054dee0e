"""Parse broker settings from a `server.properties` or from single options.

Unknown names raise `UnknownSetting`. `server_properties` removes them before a start; for a client
that alters configs they are an error.
"""

import difflib
from collections.abc import Iterable, Mapping
from functools import cache

from headwater.common.exceptions import InvalidSetting, UnknownSetting
from headwater.common.security_protocol import SecurityProtocol
from headwater.common.settings.broker_settings import BrokerSettings, settings_of_brokers
from headwater.common.settings.declared_settings import BrokerSetting
from headwater.common.settings.group_settings import GroupSettings
from headwater.common.settings.listener_settings import (
    AllListenerTexts,
    scoped_setting,
    scoped_settings,
)
from headwater.common.settings.setting_types import Value
from headwater.common.settings.topic_settings import TopicSettings
from headwater.common.settings.topic_synonyms import (
    TOPIC_SETTINGS,
    all_broker_settings,
    in_topic_text,
)
from headwater.common.settings.unsupported_settings import unsupported_names, unsupported_reason

_SECURITY_PROTOCOLS = tuple(SecurityProtocol)


@cache
def known_settings() -> Mapping[str, BrokerSetting]:
    """Return every broker setting by name, including those for topics and listeners."""
    return {**all_broker_settings(), **scoped_settings()}


def known_setting(name: str) -> BrokerSetting | None:
    """Return a known setting, also `listener.name.<listener>.<setting>`, or None."""
    return known_settings().get(name) or scoped_setting(name)


def parse_broker_value(name: str, text: str) -> Value | None:
    """Parse one value, or raise `InvalidSetting` that says what is allowed."""
    setting = known_setting(name)
    if setting is None:
        raise UnknownSetting(unknown_setting_error(name))
    try:
        return setting.kind.parse(text.strip())
    except ValueError as error:
        shown = name if setting.kind.is_secret else f"{name}={text}"
        raise InvalidSetting(f"{shown}: {error}") from error


def parse_broker_settings(texts: Mapping[str, str]) -> BrokerSettings:
    """Parse all settings; raise `InvalidSetting` for the first wrong name or value."""
    own = settings_of_brokers()
    values: dict[str, Value | None] = {}
    for name, text in texts.items():
        value = parse_broker_value(name, text)
        if name in own:
            values[name.replace(".", "_")] = value
    if "node.id" not in texts and "broker.id" in texts:
        values["node_id"] = values["broker_id"]
    # mypy cannot see that each kind returns its own field's type; the declaration ensures it.
    settings = BrokerSettings(listener_texts=AllListenerTexts(texts), **values)  # type: ignore[arg-type]
    _check_together(settings, texts)
    return settings


def topic_defaults(texts: Mapping[str, str]) -> TopicSettings:
    """Return the default topic settings of a broker with these settings."""
    overrides = {}
    for name, setting in TOPIC_SETTINGS.items():
        synonym = next((each for each in setting.synonyms if each in texts), None)
        if synonym is not None:
            overrides[name] = in_topic_text(synonym, texts[synonym].strip())
    return TopicSettings.parse(overrides)


def _check_together(settings: BrokerSettings, texts: Mapping[str, str]) -> None:
    if "broker.id" in texts and settings.broker_id not in (-1, settings.node_id):
        raise InvalidSetting("node.id and broker.id are the same setting and must not differ")
    _check_protocols(settings, texts)
    _check_groups(settings)
    topic_defaults(texts)


def _check_groups(settings: BrokerSettings) -> None:
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise InvalidSetting("group.coordinator.rebalance.protocols must contain classic")
    GroupSettings.of(settings).check(settings)


def _check_protocols(settings: BrokerSettings, texts: Mapping[str, str]) -> None:
    """Check the protocols of all listeners in use; ignore unused map entries."""
    protocols = protocols_by_listener(settings)
    listened_on = {}
    for entry in (*settings.listeners, *(settings.advertised_listeners or ())):
        written_name, is_endpoint, _ = entry.partition("://")
        if not is_endpoint:
            # Reported when the sockets are opened.
            continue
        name = written_name.upper()
        listened_on[name] = protocols.get(name, name)
        _check_served(name, listened_on[name])
    _check_brokers_protocol(settings, texts, listened_on)
    for name in settings.listener_texts.listeners():
        if name.upper() not in (*listened_on, *protocols):
            raise InvalidSetting(f"listener.name.{name}. is set, but there is no such listener")


def _check_served(listener: str, protocol: str) -> None:
    if protocol not in _SECURITY_PROTOCOLS:
        raise InvalidSetting(
            f"listener {listener} has no security protocol: "
            f"add {listener}:PLAINTEXT to listener.security.protocol.map"
        )


def _check_brokers_protocol(
    settings: BrokerSettings, texts: Mapping[str, str], listened_on: Mapping[str, str]
) -> None:
    """Check that inter-broker listener and protocol are not both set."""
    if "security.inter.broker.protocol" not in texts:
        return
    if settings.inter_broker_listener_name is not None:
        raise InvalidSetting(
            "only one of inter.broker.listener.name and security.inter.broker.protocol can be set"
        )
    protocol = settings.security_inter_broker_protocol
    if listened_on and protocol not in listened_on:
        raise InvalidSetting(
            f"security.inter.broker.protocol={protocol}: there is no listener {protocol}; "
            "set inter.broker.listener.name instead"
        )


def protocols_by_listener(settings: BrokerSettings) -> dict[str, SecurityProtocol]:
    """Return `listener.security.protocol.map`, with names in upper case."""
    protocols = {}
    for pair in settings.listener_security_protocol_map:
        listener, _, protocol = pair.partition(":")
        if protocol.upper() not in _SECURITY_PROTOCOLS:
            raise InvalidSetting(
                f"listener.security.protocol.map={pair}: "
                f"must be NAME: and one of {', '.join(_SECURITY_PROTOCOLS)}"
            )
        protocols[listener.upper()] = SecurityProtocol(protocol.upper())
    return protocols


def unknown_setting_error(name: str) -> str:
    """Return an error message for an unknown setting, with the nearest known name."""
    reason = unsupported_reason(name)
    if reason is not None:
        return f"{name} is not supported: {reason}"
    if name != name.lower() and known_setting(name.lower()) is not None:
        return f"unknown broker setting {name}; did you mean {name.lower()} (lower case)?"
    near = _nearest(name)
    hint = "" if near is None else f"; did you mean {near}?"
    return f"unknown broker setting {name}{hint}"


def _nearest(name: str) -> str | None:
    """Return the most similar known name, compared without a listener's prefix."""
    prefix, setting = "", name
    known: Iterable[str] = (*known_settings(), *unsupported_names())
    match name.split(".", maxsplit=3):
        case ["listener", "name", listener, setting]:
            prefix = f"listener.name.{listener.lower()}."
            known = scoped_settings()
    near = difflib.get_close_matches(setting, known, n=1)
    return f"{prefix}{near[0]}" if near else None
