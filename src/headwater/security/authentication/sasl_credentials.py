"""With what somebody logs in: a mechanism, a name, a password."""

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
"""Those that are served, on both sides."""

_MODULES: Final = {
    plain_mechanism.MECHANISM: "PlainLoginModule",
    **dict.fromkeys(scram.BY_NAME, "ScramLoginModule"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A login that can be begun any number of times. Its repr keeps the secret."""

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
    """What settings say, or `InvalidSetting`. A text of JAAS and a name exclude each other."""
    checked = known_mechanism(mechanism, "sasl.mechanism")
    if checked == oauth_bearer.MECHANISM:
        raise InvalidSetting(f"{checked} takes a token, and neither a name nor a password")
    if jaas is not None:
        if user is not None or password is not None:
            raise InvalidSetting("give sasl.jaas.config, or sasl.username with sasl.password")
        login = read_jaas(jaas)
        if login.module != _MODULES[checked]:
            raise InvalidSetting(
                f"sasl.jaas.config is for {login.module}, and {checked} needs {_MODULES[checked]}"
            )
        user, password = login.username, login.password
    if not user or not password:
        raise InvalidSetting(
            "a login needs sasl.username and sasl.password, or both within sasl.jaas.config"
        )
    if "\0" in user + password:
        raise InvalidSetting("neither a name nor a password may have a NUL in it")
    return Credentials(mechanism=checked, user=user, password=password)


def known_mechanism(mechanism: str | None, setting: str) -> str:
    """One that is served, or `InvalidSetting`."""
    if mechanism not in MECHANISMS:
        raise InvalidSetting(
            f"{setting} must be one of {', '.join(MECHANISMS)}, and is {mechanism}"
        )
    return mechanism
