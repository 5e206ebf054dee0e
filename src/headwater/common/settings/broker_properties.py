"""Parse a broker's settings from the texts of its `server.properties`, or of single options.

Names that are not settings of this broker raise `UnknownSetting`. `server_properties` takes them
out before a start; a client that alters a config is told.
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
from headwater.common.settings.unsupported_settings import unserved_names, why_unsupported

_SECURITY_PROTOCOLS = tuple(SecurityProtocol)


@cache
def known_settings() -> Mapping[str, BrokerSetting]:
    """Every broker setting by name, those included that topics inherit or listeners may have."""
    return {**all_broker_settings(), **scoped_settings()}


def known_setting(name: str) -> BrokerSetting | None:
    """One of these, or one of a listener alone: `listener.name.<listener>.<setting>`."""
    return known_settings().get(name) or scoped_setting(name)


def parse_broker_value(name: str, text: str) -> Value | None:
    """One value from its text, or `InvalidSetting` that says what would be right."""
    setting = known_setting(name)
    if setting is None:
        raise UnknownSetting(why_unknown(name))
    try:
        return setting.kind.parse(text.strip())
    except ValueError as error:
        shown = name if setting.kind.is_secret else f"{name}={text}"
        raise InvalidSetting(f"{shown}: {error}") from error


def parse_broker_settings(texts: Mapping[str, str]) -> BrokerSettings:
    """Typed settings; `InvalidSetting` for the first name or value that is wrong."""
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
    """The settings of a topic that has none of its own, on a broker with these texts."""
    overrides = {}
    for name, setting in TOPIC_SETTINGS.items():
        synonym = next((each for each in setting.synonyms if each in texts), None)
        if synonym is not None:
            overrides[name] = in_topic_text(synonym, texts[synonym].strip())
    return TopicSettings.parse(overrides)


def _check_together(settings: BrokerSettings, texts: Mapping[str, str]) -> None:
    if "broker.id" in texts and settings.broker_id not in (-1, settings.node_id):
        raise InvalidSetting("node.id and broker.id are two names of one setting, and differ")
    _check_protocols(settings, texts)
    _check_groups(settings)
    topic_defaults(texts)


def _check_groups(settings: BrokerSettings) -> None:
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise InvalidSetting("group.coordinator.rebalance.protocols cannot do without classic")
    GroupSettings.of(settings).check(settings)


def _check_protocols(settings: BrokerSettings, texts: Mapping[str, str]) -> None:
    """What is listened on must be served; what a name would speak that nobody uses is no wish."""
    protocols = protocols_by_listener(settings)
    listened_on = {}
    for entry in (*settings.listeners, *(settings.advertised_listeners or ())):
        written_name, is_endpoint, _ = entry.partition("://")
        if not is_endpoint:
            # Whoever opens the sockets will say so.
            continue
        name = written_name.upper()
        listened_on[name] = protocols.get(name, name)
        _check_served(name, listened_on[name])
    _check_brokers_protocol(settings, texts, listened_on)
    for name in settings.listener_texts.listeners():
        if name.upper() not in (*listened_on, *protocols):
            raise InvalidSetting(f"listener.name.{name}. is set, and there is no such listener")


def _check_served(listener: str, protocol: str) -> None:
    if protocol not in _SECURITY_PROTOCOLS:
        raise InvalidSetting(
            f"nobody says what listener {listener} speaks: "
            f"add {listener}:PLAINTEXT to listener.security.protocol.map"
        )


def _check_brokers_protocol(
    settings: BrokerSettings, texts: Mapping[str, str], listened_on: Mapping[str, str]
) -> None:
    """How brokers speak among themselves is said by a listener or by a protocol, not by both."""
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
            "name another one by inter.broker.listener.name"
        )


def protocols_by_listener(settings: BrokerSettings) -> dict[str, SecurityProtocol]:
    """`listener.security.protocol.map`, with names in capital letters."""
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


def why_unknown(name: str) -> str:
    """What to say of a name that is no setting of this broker, with the nearest that is one."""
    reason = why_unsupported(name)
    if reason is not None:
        return f"{name} is not served: {reason}"
    if name != name.lower() and known_setting(name.lower()) is not None:
        return f"unknown broker setting {name}; did you mean {name.lower()}, in small letters?"
    near = _nearest(name)
    hint = "" if near is None else f"; did you mean {near}?"
    return f"unknown broker setting {name}{hint}"


def _nearest(name: str) -> str | None:
    """The known name that is most like this one; of a listener's own settings, after its prefix."""
    prefix, setting = "", name
    known: Iterable[str] = (*known_settings(), *unserved_names())
    match name.split(".", maxsplit=3):
        case ["listener", "name", listener, setting]:
            prefix = f"listener.name.{listener.lower()}."
            known = scoped_settings()
    near = difflib.get_close_matches(setting, known, n=1)
    return f"{prefix}{near[0]}" if near else None
