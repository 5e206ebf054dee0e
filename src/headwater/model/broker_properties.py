"""A broker's settings from the texts of its `server.properties`, or of single options.

What cannot be obeyed is refused and never ignored: a name that nobody knows, and everything about
TLS, SASL and rights until these are built.
"""

import difflib
from collections.abc import Mapping
from functools import cache

from headwater.model.broker_settings import BrokerSetting, BrokerSettings, settings_of_brokers
from headwater.model.failures import InvalidSetting, UnknownSetting
from headwater.model.group_settings import GroupSettings
from headwater.model.security_protocol import SecurityProtocol
from headwater.model.setting_kinds import Value
from headwater.model.topic_settings import TopicSettings
from headwater.model.topic_synonyms import TOPIC_SETTINGS, all_broker_settings, in_topic_text

_NOT_YET = (
    "allow.everyone.if.no.acl.found",
    "authorizer.",
    "connections.max.reauth.ms",
    "delegation.token.",
    "listener.name.",
    "password.encoder.",
    "principal.builder.",
    "sasl.",
    "security.",
    "ssl.",
    "super.users",
    "zookeeper.set.acl",
    "zookeeper.ssl.",
)
# Rules that the operator wrote as a class for the Java machine.
_RULES = (
    "alter.config.policy.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
)
_NO_QUORUM = ("controller.listener.", "controller.quorum.", "metadata.log.", "process.roles")
_SECURITY_PROTOCOLS = tuple(SecurityProtocol)


@cache
def known_settings() -> Mapping[str, BrokerSetting]:
    """Every broker setting by name, those included that topics inherit."""
    return all_broker_settings()


def is_about_security(name: str) -> bool:
    """Whether a setting is about who may do what, which is never left aside."""
    return name not in known_settings() and name.startswith(_NOT_YET + _RULES)


def parse_broker_value(name: str, text: str) -> Value | None:
    """One value from its text, or `InvalidSetting` that says what would be right."""
    setting = known_settings().get(name)
    if setting is None:
        raise UnknownSetting(_why_unknown(name))
    try:
        return setting.kind.parse(text.strip())
    except ValueError as error:
        raise InvalidSetting(f"{name}={text}: {error}") from error


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
    settings = BrokerSettings(**values)  # type: ignore[arg-type]
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
    _check_protocols(settings)
    _check_groups(settings)
    topic_defaults(texts)


def _check_groups(settings: BrokerSettings) -> None:
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise InvalidSetting("group.coordinator.rebalance.protocols cannot do without classic")
    GroupSettings.of(settings).check(settings)


def _check_protocols(settings: BrokerSettings) -> None:
    """What is listened on must be plain; what a name would speak that nobody uses is no wish.

    Kafka's own example file maps SSL and SASL_SSL, and listens on neither.
    """
    protocols = {}
    for pair in settings.listener_security_protocol_map:
        listener, _, protocol = pair.partition(":")
        if protocol.upper() not in _SECURITY_PROTOCOLS:
            raise InvalidSetting(
                f"listener.security.protocol.map={pair}: "
                f"must be NAME: and one of {', '.join(_SECURITY_PROTOCOLS)}"
            )
        protocols[listener.upper()] = protocol.upper()
    for entry in (*settings.listeners, *(settings.advertised_listeners or ())):
        written_name, is_endpoint, _ = entry.partition("://")
        if not is_endpoint:
            # Whoever opens the sockets will say so.
            continue
        name = written_name.upper()
        protocol = protocols.get(name, name)
        if protocol not in _SECURITY_PROTOCOLS:
            raise InvalidSetting(
                f"nobody says what listener {name} speaks: "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        if protocol != "PLAINTEXT":
            raise InvalidSetting(
                f"listener {name} cannot speak {protocol}: TLS and SASL are not built yet"
            )


def _why_unknown(name: str) -> str:
    if name.startswith(_NOT_YET):
        return f"{name}: TLS, SASL and rights are not built yet"
    if name in _RULES:
        return f"{name}: rules that are written for the Java machine cannot be obeyed here"
    if name.startswith(_NO_QUORUM):
        return f"{name}: there is no quorum of controllers here, leave it out"
    near = difflib.get_close_matches(name, known_settings(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown broker setting {name}{hint}"
