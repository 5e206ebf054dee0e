"""A broker's settings from the texts of its `server.properties`, or of single options.

What cannot be obeyed is refused and never ignored: a name that nobody knows, and everything about
TLS, SASL and rights until these are built.
"""

import difflib
from collections.abc import Mapping
from functools import cache

from headwater.model.broker_settings import BrokerSetting, BrokerSettings, settings_of_brokers
from headwater.model.failures import InvalidSetting
from headwater.model.setting_kinds import Value
from headwater.model.topic_settings import TopicSettings
from headwater.model.topic_synonyms import TOPIC_SETTINGS, all_broker_settings, in_topic_text

_NOT_YET = (
    "authorizer.",
    "delegation.token.",
    "listener.name.",
    "password.encoder.",
    "principal.builder.",
    "sasl.",
    "security.providers",
    "ssl.",
    "super.users",
)
_NO_QUORUM = ("controller.listener.", "controller.quorum.", "metadata.log.", "process.roles")


@cache
def known_settings() -> Mapping[str, BrokerSetting]:
    """Every broker setting by name, those included that topics inherit."""
    return all_broker_settings()


def parse_broker_value(name: str, text: str) -> Value | None:
    """One value from its text, or `InvalidSetting` that says what would be right."""
    setting = known_settings().get(name)
    if setting is None:
        raise InvalidSetting(_why_unknown(name))
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
    for pair in settings.listener_security_protocol_map:
        listener, _, protocol = pair.partition(":")
        if protocol != "PLAINTEXT":
            raise InvalidSetting(
                f"listener {listener} cannot speak {protocol or 'nothing'}: not yet"
            )
    topic_defaults(texts)


def _why_unknown(name: str) -> str:
    if name.startswith(_NOT_YET):
        return f"{name}: TLS, SASL and rights are not built yet"
    if name.startswith(_NO_QUORUM):
        return f"{name}: there is no quorum of controllers here, leave it out"
    near = difflib.get_close_matches(name, known_settings(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown broker setting {name}{hint}"
