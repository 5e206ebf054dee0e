"""Settings of a single listener: `listener.name.<listener>.<setting>`.

    settings.listener_texts.of("EXTERNAL").read(ListenerSslSettings)
    settings.listener_texts.of("EXTERNAL").read(SaslSettings, mechanism="scram-sha-256")

A listener's own value wins over the one without a prefix, and that over the default; one for a
mechanism (`listener.name.<listener>.<mechanism>.<setting>`) wins over both.

Note: a listener's name may contain dots, so such a name is parsed from its end, which must be one
of the settings in `SCOPED`. The prefix must be in lower case; otherwise the setting is unknown,
because it would silently have no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headwater.common.settings.declared_settings import (
    BrokerSetting,
    UpdateMode,
    declared_fields,
    settings_in,
)
from headwater.common.settings.oauth_settings import ListenerOAuthSettings
from headwater.common.settings.sasl_settings import ListenerSaslSettings
from headwater.common.settings.ssl_settings import ListenerSslSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    S = TypeVar("S", bound=DataclassInstance)

SCOPED: Final = (ListenerSslSettings, ListenerSaslSettings, ListenerOAuthSettings)
"""Classes whose settings a listener can override."""

MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
"""Mechanisms as written in setting names."""

_PREFIX: Final = "listener.name."
# As in Kafka, only for one listener of one broker at a time. Kafka also lets clients change
# passwords, and stores them encrypted where all brokers can read them; here no secret leaves its
# broker.
_CHANGEABLE: Final = ("ssl.keystore.location", "ssl.truststore.location")
_OF_MECHANISMS: Final = ("sasl.", "connections.max.reauth.ms")


class ScopedName(NamedTuple):
    """Parsed name with a prefix; listener and mechanism are in lower case."""

    listener: str
    mechanism: str | None
    setting: str


@cache
def scoped_settings() -> Mapping[str, BrokerSetting]:
    """Return each setting that a listener can override, by name without prefix."""
    return {name: each for cls in SCOPED for name, each in settings_in(cls).items()}


def scoped_name(name: str) -> ScopedName | None:
    """Parse a name with a prefix; None if it has none or cannot have one."""
    if not name.startswith(_PREFIX):
        return None
    rest = name.removeprefix(_PREFIX)
    ends = [each for each in scoped_settings() if rest.endswith(f".{each}")]
    if not ends:
        return None
    setting = max(ends, key=len)
    listener = rest.removesuffix(f".{setting}")
    if listener != listener.lower():
        return None
    for mechanism in MECHANISMS if setting.startswith(_OF_MECHANISMS) else ():
        if listener.endswith(f".{mechanism}"):
            return ScopedName(listener.removesuffix(f".{mechanism}"), mechanism, setting)
    return ScopedName(listener, None, setting) if listener else None


def scoped_setting(name: str) -> BrokerSetting | None:
    """Return the declaration of a setting with a prefix, under its full name."""
    scoped = scoped_name(name)
    if scoped is None:
        return None
    known = scoped_settings()[scoped.setting]
    reach = UpdateMode.PER_BROKER if scoped.setting in _CHANGEABLE else known.update_mode
    return replace(known, name=name, update_mode=reach)


@dataclass(frozen=True, slots=True)
class ListenerTexts:
    """Settings of one listener as validated text."""

    listener: str
    _texts: "AllListenerTexts"

    def text(self, name: str, *, mechanism: str | None = None) -> str | None:
        """Return the effective text; None if not set."""
        scope = f"{_PREFIX}{self.listener.lower()}."
        places = [f"{scope}{name}", name]
        if mechanism is not None:
            places.insert(0, f"{scope}{mechanism.lower()}.{name}")
        return next(
            (text for place in places if (text := self._texts.get(place)) is not None), None
        )

    def is_own(self, name: str) -> bool:
        """Return whether it is set for this listener, not only for all."""
        return self._texts.get(f"{_PREFIX}{self.listener.lower()}.{name}") is not None

    def read(self, cls: "type[S]", *, mechanism: str | None = None) -> "S":
        """Parse all settings of a class, with defaults for those not set."""
        values = {}
        for name, each in declared_fields(cls).items():
            text = self.text(name, mechanism=mechanism)
            if text is not None:
                values[each.name] = each.metadata["kind"].parse(text.strip())
        return cls(**values)


class AllListenerTexts:
    """Settings with a prefix or that can have one; its repr hides secrets."""

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {
            name: text
            for name, text in texts.items()
            if name in scoped_settings() or scoped_name(name) is not None
        }

    def of(self, listener: str) -> ListenerTexts:
        return ListenerTexts(listener, self)

    def get(self, name: str) -> str | None:
        return self._texts.get(name)

    def listeners(self) -> list[str]:
        """Return the listeners named by prefixes, in lower case."""
        found = filter(None, map(scoped_name, self._texts))
        return list(dict.fromkeys(each.listener for each in found))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllListenerTexts) and self._texts == other._texts

    def __hash__(self) -> int:
        return hash(frozenset(self._texts.items()))

    def __repr__(self) -> str:
        return f"AllListenerTexts({sorted(self._texts)})"
