"""Derive the principal of a TLS client from its certificate.

The principal is the subject, mapped by `ssl.principal.mapping.rules`. A client without a
certificate is `User:ANONYMOUS`, as in Kafka.
"""

from collections.abc import Callable
from functools import partial

from headwater.common.exceptions import ProtocolError, TlsHandshakeFailed
from headwater.common.principal import ANONYMOUS, Principal
from headwater.security.authentication.distinguished_name import subject_of
from headwater.security.authentication.ssl_principal_mapper import Rule, mapped, parse_rules

_KIND = "User"


def principal_by(rules: str) -> Callable[[bytes | None], Principal]:
    """Build the function of `ssl.principal.mapping.rules`: certificate to principal."""
    return partial(_principal_of, parse_rules(rules))


def anonymous(certificate: bytes | None) -> Principal:
    """Ignore the certificate: on SASL_SSL listeners, SASL determines the principal."""
    del certificate
    return ANONYMOUS


def _principal_of(rules: tuple[Rule, ...], certificate: bytes | None) -> Principal:
    if certificate is None:
        return ANONYMOUS
    try:
        name = subject_of(certificate)
    except ProtocolError as error:
        raise TlsHandshakeFailed(
            f"cannot read the subject of the client certificate: {error}"
        ) from error
    return Principal(_KIND, mapped(rules, name))
