"""A client's SASL credentials, from `sasl.*` settings."""

from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.ports import Random
from headwater.security.authentication import oauth_bearer, plain_mechanism, scram
from headwater.security.authentication.jaas_config import read_jaas
from headwater.security.authentication.plain_mechanism import PlainClient
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
from headwater.security.authentication.sasl_exchange import SaslClient
from headwater.security.authentication.scram_client import ScramClient

MECHANISMS: Final = (plain_mechanism.MECHANISM, *scram.BY_NAME, oauth_bearer.MECHANISM)
"""SASL mechanisms that clients and brokers support."""

_MODULES: Final = {
    plain_mechanism.MECHANISM: "PlainLoginModule",
    **dict.fromkeys(scram.BY_NAME, "ScramLoginModule"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Mechanism, user and password (hidden in the repr); starts exchanges."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def login(self, rng: Random) -> SaslClientAuthenticator:
        mechanism = scram.BY_NAME.get(self.mechanism)
        exchange: SaslClient
        if mechanism is None:
            exchange = PlainClient(self.user, self.password)
        else:
            exchange = ScramClient(mechanism, self.user, self.password, rng)
        return SaslClientAuthenticator(self.mechanism, exchange, rng)


def credentials(
    mechanism: str | None, *, jaas: str | None, user: str | None, password: str | None
) -> Credentials:
    """Read credentials from a client's settings, or raise `InvalidSetting`.

    `sasl.jaas.config` excludes `sasl.username` and `sasl.password`.
    """
    checked = known_mechanism(mechanism, "sasl.mechanism")
    if checked == oauth_bearer.MECHANISM:
        raise InvalidSetting(
            f"{checked} uses a token; remove sasl.username, sasl.password and sasl.jaas.config"
        )
    if jaas is not None:
        if user is not None or password is not None:
            raise InvalidSetting(
                "set sasl.jaas.config or sasl.username and sasl.password, not both"
            )
        login = read_jaas(jaas)
        if login.module != _MODULES[checked]:
            raise InvalidSetting(
                f"sasl.jaas.config names {login.module}, but {checked} needs {_MODULES[checked]}"
            )
        user, password = login.username, login.password
    if not user or not password:
        raise InvalidSetting(
            "SASL needs sasl.username and sasl.password, or both within sasl.jaas.config"
        )
    if "\0" in user + password:
        raise InvalidSetting("sasl.username and sasl.password must not contain NUL characters")
    return Credentials(mechanism=checked, user=user, password=password)


def known_mechanism(mechanism: str | None, setting: str) -> str:
    """Return `mechanism` if it is supported, else raise `InvalidSetting`."""
    if mechanism not in MECHANISMS:
        raise InvalidSetting(f"{setting} must be one of {', '.join(MECHANISMS)}, not {mechanism}")
    return mechanism
