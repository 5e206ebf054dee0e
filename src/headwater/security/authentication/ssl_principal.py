"""Who a client is by its certificate: `User:` and its subject, or what rules make of that.

Whoever shows no certificate is anonymous, as in Kafka.
"""

from collections.abc import Callable
from functools import partial

from headwater.common.exceptions import ProtocolError, TlsRefused
from headwater.common.principal import ANONYMOUS, Principal
from headwater.security.authentication.distinguished_name import subject_of
from headwater.security.authentication.ssl_principal_mapper import Rule, mapped, parse_rules

_KIND = "User"


def principal_by(rules: str) -> Callable[[bytes | None], Principal]:
    """What makes principals of certificates by `ssl.principal.mapping.rules`."""
    return partial(_principal_of, parse_rules(rules))


def anonymous(certificate: bytes | None) -> Principal:
    """Where a login follows, a certificate says nothing of who somebody is."""
    del certificate
    return ANONYMOUS


def _principal_of(rules: tuple[Rule, ...], certificate: bytes | None) -> Principal:
    if certificate is None:
        return ANONYMOUS
    try:
        name = subject_of(certificate)
    except ProtocolError as error:
        raise TlsRefused(f"the certificate has no name: {error}") from error
    return Principal(_KIND, mapped(rules, name))
