"""Settings of TLS, under Kafka's names, for both ends, clients and listeners.

Note: nothing is opened here. A store is given by its path (`ssl.keystore.location`) or, as PEM, by
its content (`ssl.keystore.key`).
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
    """TLS settings of both ends."""

    ssl_protocol: str = setting(
        text(),
        "TLSv1.3",
        "Accepted for compatibility; ssl.enabled.protocols sets the versions.",
        has_effect=False,
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        some_of("TLSv1.2", "TLSv1.3"),
        ("TLSv1.2", "TLSv1.3"),
        "Enabled TLS versions.",
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        names(), (), "Cipher suites by Java's or OpenSSL's names; empty for all."
    )
    ssl_keystore_type: str = setting(
        upper_word(*STORE_TYPES),
        "JKS",
        "Accepted for compatibility; PEM or PKCS12 is detected from the file.",
    )
    ssl_keystore_location: str | None = setting(
        optional(text()), None, "Key store: file with the private key and certificate chain."
    )
    ssl_keystore_password: Password | None = setting(
        optional(password()), None, "Password of the key store."
    )
    ssl_key_password: Password | None = setting(
        optional(password()), None, "Password of the private key in the key store."
    )
    ssl_keystore_key: Password | None = setting(
        optional(password()), None, "Private key as PEM text."
    )
    ssl_keystore_certificate_chain: Password | None = setting(
        optional(password()), None, "Certificate chain as PEM text."
    )
    ssl_truststore_type: str = setting(
        upper_word(*STORE_TYPES),
        "JKS",
        "Accepted for compatibility; PEM or PKCS12 is detected from the file.",
    )
    ssl_truststore_location: str | None = setting(
        optional(text()), None, "Trust store: file with the trusted certificates."
    )
    ssl_truststore_password: Password | None = setting(
        optional(password()), None, "Password of the trust store."
    )
    ssl_truststore_certificates: Password | None = setting(
        optional(password()), None, "Trusted certificates as PEM text."
    )
    ssl_endpoint_identification_algorithm: str = setting(
        word("https", ""),
        "https",
        "Host name verification of a server's certificate; empty disables it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSslSettings(SslSettings):
    """TLS settings of a client, including librdkafka's names for PEM files."""

    ssl_ca_location: str | None = setting(
        optional(text()), None, "PEM file with the trusted certificates."
    )
    ssl_certificate_location: str | None = setting(
        optional(text()), None, "PEM file with the certificate chain."
    )
    ssl_key_location: str | None = setting(optional(text()), None, "PEM file with the private key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSslSettings(SslSettings):
    """TLS settings of a listener, including those about client certificates."""

    ssl_client_auth: str = setting(
        word("none", "requested", "required"),
        "none",
        "Client certificates: required, requested or none.",
    )
    ssl_principal_mapping_rules: str = setting(
        text(),
        "DEFAULT",
        "Rules that map a certificate's distinguished name to a principal.",
    )
