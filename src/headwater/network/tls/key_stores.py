"""Read keys and certificates from the stores of Kafka's ssl.* settings, as PEM.

PEM and PKCS12 are supported, from files or (PEM) directly in settings.

Note: the store type is detected from the content, not from `ssl.keystore.type`, whose default is
JKS. Java is similarly tolerant: it opens a PKCS12 file declared as JKS.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.password import Password
from headwater.common.settings.ssl_settings import ClientSslSettings, SslSettings

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_PEM_BEGIN: Final = b"-----BEGIN "
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_DER_SEQUENCE: Final = 0x30
# No real store is larger, and a setting that names a disk image must not fill the memory.
_STORE_BYTES_MAX: Final = 16_777_216

_PACKAGE: Final = (
    "a PKCS12 store needs the package cryptography: pip install 'headwater[tls]', "
    "or convert it to PEM with `openssl pkcs12 -in {path} -out store.pem`"
)


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A private key with its certificate chain, as one PEM text."""

    pem: bytes = field(repr=False)
    password: Password | None


def own_key(settings: SslSettings) -> OwnKey | None:
    """Return the own key and certificates; None if not set. Raises `InvalidSetting`."""
    if isinstance(settings, ClientSslSettings):
        found = _key_of_librdkafka(settings)
        if found is not None:
            return found
    location = settings.ssl_keystore_location
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if key is not None or chain is not None:
        if location is not None:
            raise InvalidSetting("set either ssl.keystore.location or ssl.keystore.key, not both")
        if key is None or chain is None:
            raise InvalidSetting(
                "ssl.keystore.key and ssl.keystore.certificate.chain must be set together"
            )
        return OwnKey(_pem(key) + b"\n" + _pem(chain), settings.ssl_key_password)
    if location is None:
        return None
    content = _read("ssl.keystore.location", location)
    if content.lstrip().startswith(_PEM_BEGIN) or b"\n" + _PEM_BEGIN in content:
        return OwnKey(content, settings.ssl_key_password)
    password = settings.ssl_keystore_password or settings.ssl_key_password
    return _key_of_pkcs12("ssl.keystore.location", location, content, password)


def trusted_certificates(settings: SslSettings) -> str | None:
    """Return the trusted certificates as PEM; None if not set, to use the system's."""
    if isinstance(settings, ClientSslSettings) and settings.ssl_ca_location is not None:
        return _read("ssl.ca.location", settings.ssl_ca_location).decode("utf-8", "replace")
    location, inline = settings.ssl_truststore_location, settings.ssl_truststore_certificates
    if inline is not None:
        if location is not None:
            raise InvalidSetting(
                "set either ssl.truststore.location or ssl.truststore.certificates, not both"
            )
        return _pem(inline).decode("utf-8", "replace")
    if location is None:
        return None
    content = _read("ssl.truststore.location", location)
    if _PEM_BEGIN in content:
        return content.decode("utf-8", "replace")
    return _certificates_of_pkcs12(location, content, settings.ssl_truststore_password)


def _key_of_librdkafka(settings: ClientSslSettings) -> OwnKey | None:
    certificate, key = settings.ssl_certificate_location, settings.ssl_key_location
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidSetting("ssl.certificate.location and ssl.key.location must be set together")
    pem = _read("ssl.key.location", key) + b"\n" + _read("ssl.certificate.location", certificate)
    return OwnKey(pem, settings.ssl_key_password)


def _pem(text: Password) -> bytes:
    """Return a PEM text, which Java properties often have on one line."""
    pem = text.reveal().strip()
    if "\n" not in pem:
        pem = _BLOCK.sub(_in_lines, pem)
    return pem.encode()


def _in_lines(block: re.Match[str]) -> str:
    label, content = block[1], "\n".join(block[2].split())
    return f"-----BEGIN {label}-----\n{content}\n-----END {label}-----\n"


def _read(name: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            content = file.read(_STORE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSetting(f"{name}={location}: {error.strerror}") from error
    if len(content) > _STORE_BYTES_MAX:
        raise InvalidSetting(f"{name}={location}: too large for a key store")
    if content.startswith(_JKS_MAGIC):
        raise InvalidSetting(
            f"{name}={location}: JKS stores are not supported; convert it with `keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {location}.p12 "
            "-deststoretype PKCS12`"
        )
    return content


def _key_of_pkcs12(name: str, location: str, content: bytes, password: Password | None) -> OwnKey:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise InvalidSetting(f"{name}: {_PACKAGE.format(path=location)}") from None
    if not content or content[0] != _DER_SEQUENCE:
        raise InvalidSetting(f"{name}={location}: neither PEM nor PKCS12")
    try:
        found = pkcs12.load_pkcs12(content, _secret(password))
    except ValueError as error:
        raise InvalidSetting(
            f"{name}={location}: cannot be opened, check the password: {error}"
        ) from error
    if found.key is None or found.cert is None:
        raise InvalidSetting(f"{name}={location}: no private key with a certificate")
    key = found.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = (found.cert, *found.additional_certs)
    pems = (each.certificate.public_bytes(serialization.Encoding.PEM) for each in chain)
    return OwnKey(key + b"".join(pems), None)


def _certificates_of_pkcs12(location: str, content: bytes, password: Password | None) -> str:
    name = "ssl.truststore.location"
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
    except ImportError:
        raise InvalidSetting(f"{name}: {_PACKAGE.format(path=location)}") from None
    if not content or content[0] != _DER_SEQUENCE:
        raise InvalidSetting(f"{name}={location}: neither PEM nor PKCS12")
    try:
        found = pkcs12.load_pkcs12(content, _secret(password))
    except ValueError as error:
        raise InvalidSetting(
            f"{name}={location}: cannot be opened, check the password: {error}"
        ) from error
    chain = [*([found.cert] if found.cert is not None else []), *found.additional_certs]
    pems = (each.certificate.public_bytes(Encoding.PEM).decode("ascii") for each in chain)
    return "".join(pems)


def _secret(password: Password | None) -> bytes | None:
    return None if password is None else password.reveal().encode()
