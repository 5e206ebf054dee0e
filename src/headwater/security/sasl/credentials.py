"""With what somebody logs in: a mechanism, a name, a password."""

from dataclasses import dataclass, field
from typing import Final

from headwater.model.failures import InvalidSetting
from headwater.model.ports import Dice
from headwater.security.sasl import bearer, plain, scram
from headwater.security.sasl.client_login import ClientLogin
from headwater.security.sasl.exchange import ClientExchange
from headwater.security.sasl.jaas import read_jaas
from headwater.security.sasl.plain import PlainClient
from headwater.security.sasl.scram_client import ScramClient

MECHANISMS: Final = (plain.MECHANISM, *scram.BY_NAME, bearer.MECHANISM)
"""Those that are served, on both sides."""

_MODULES: Final = {
    plain.MECHANISM: "PlainLoginModule",
    **dict.fromkeys(scram.BY_NAME, "ScramLoginModule"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A login that can be begun any number of times. Its repr keeps the secret."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def login(self, dice: Dice) -> ClientLogin:
        mechanism = scram.BY_NAME.get(self.mechanism)
        exchange: ClientExchange
        if mechanism is None:
            exchange = PlainClient(self.user, self.password)
        else:
            exchange = ScramClient(mechanism, self.user, self.password, dice)
        return ClientLogin(self.mechanism, exchange, dice)


def credentials(
    mechanism: str | None, *, jaas: str | None, user: str | None, password: str | None
) -> Credentials:
    """What settings say, or `InvalidSetting`. A text of JAAS and a name exclude each other."""
    checked = known_mechanism(mechanism, "sasl.mechanism")
    if checked == bearer.MECHANISM:
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
