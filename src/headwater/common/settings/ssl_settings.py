"""The settings of TLS, under Kafka's own names: of one end, of a client, and of a listener.

What a reader would get wrong: they are texts that name files, and nothing is opened here. A store
is given by its place (`ssl.keystore.location`) or, as PEM, by its content (`ssl.keystore.key`).
"""

from dataclasses import dataclass
from typing import Final

from headwater.common.settings.declared_settings import setting
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import (
    names,
    optional,
    password,
    some_of,
    text,
    upper_word,
    word,
)

STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, slots=True, kw_only=True)
class SslSettings:
    """What both ends have: who I am, whom I trust, and how we speak."""

    ssl_protocol: str = setting(
        text(),
        "TLSv1.3",
        "Taken for compatibility; `ssl.enabled.protocols` says what is spoken.",
        has_effect=False,
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        some_of("TLSv1.2", "TLSv1.3"),
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that may be spoken.",
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        names(), (), "The ciphers that may be used, under Java's or OpenSSL's names; empty is all."
    )
    ssl_keystore_type: str = setting(
        upper_word(*STORE_TYPES),
        "JKS",
        "Taken for compatibility; a store says itself what it is, PEM or PKCS12.",
    )
    ssl_keystore_location: str | None = setting(
        optional(text()), None, "The file of the own key and certificates."
    )
    ssl_keystore_password: Password | None = setting(
        optional(password()), None, "What opens the key store."
    )
    ssl_key_password: Password | None = setting(
        optional(password()), None, "What opens the key in the key store."
    )
    ssl_keystore_key: Password | None = setting(
        optional(password()), None, "The own key itself, as PEM."
    )
    ssl_keystore_certificate_chain: Password | None = setting(
        optional(password()), None, "The own certificates themselves, as PEM."
    )
    ssl_truststore_type: str = setting(
        upper_word(*STORE_TYPES),
        "JKS",
        "Taken for compatibility; a store says itself what it is, PEM or PKCS12.",
    )
    ssl_truststore_location: str | None = setting(
        optional(text()), None, "The file of the certificates that are trusted."
    )
    ssl_truststore_password: Password | None = setting(
        optional(password()), None, "What opens the trust store."
    )
    ssl_truststore_certificates: Password | None = setting(
        optional(password()), None, "The certificates that are trusted themselves, as PEM."
    )
    ssl_endpoint_identification_algorithm: str = setting(
        word("https", ""),
        "https",
        "How a server's certificate is held against its name; empty leaves that out.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSslSettings(SslSettings):
    """What a client has besides: the names that librdkafka and its many children have for PEM."""

    ssl_ca_location: str | None = setting(
        optional(text()), None, "The PEM file of the certificates that are trusted."
    )
    ssl_certificate_location: str | None = setting(
        optional(text()), None, "The PEM file of the own certificates."
    )
    ssl_key_location: str | None = setting(optional(text()), None, "The PEM file of the own key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSslSettings(SslSettings):
    """What a listener has besides: what it asks of clients, and what it calls them."""

    ssl_client_auth: str = setting(
        word("none", "requested", "required"),
        "none",
        "Whether clients show a certificate: `required`, `requested` or `none`.",
    )
    ssl_principal_mapping_rules: str = setting(
        text(),
        "DEFAULT",
        "How the name in a client's certificate becomes that of a principal.",
    )
