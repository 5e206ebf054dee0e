"""Keys and certificates out of the stores that Kafka's settings name, as PEM.

PEM and PKCS12 are read, from files or (PEM) out of the settings themselves. What a reader would get
wrong: what a store is follows from its content and not from `ssl.keystore.type`, whose default is
JKS. Java does this too, as far as it can: it opens a PKCS12 file that is called JKS.
"""

from pathlib import Path
from typing import Final, NamedTuple

from headwater.model.failures import InvalidSetting
from headwater.model.password import Password
from headwater.model.ssl_settings import SslSettings

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_PEM_BEGIN: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = 0x30
# No honest store is larger, and a setting that names a disk image shall not fill the memory.
_STORE_BYTES_MAX: Final = 16_777_216

_PACKAGE: Final = (
    "a PKCS12 store needs the package cryptography: pip install 'headwater[tls]', "
    "or turn it into PEM by `openssl pkcs12 -in {path} -out store.pem`"
)


class OwnKey(NamedTuple):
    """A private key with its certificate and those that vouch for it, in one PEM text."""

    pem: bytes
    password: Password | None


def own_key(settings: SslSettings) -> OwnKey | None:
    """Who we are; None when nothing is set. `InvalidSetting` says what is wrong."""
    location = settings.ssl_keystore_location
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if key is not None or chain is not None:
        if location is not None:
            raise InvalidSetting("set either ssl.keystore.location or ssl.keystore.key, not both")
        if key is None or chain is None:
            raise InvalidSetting(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together"
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
    """Whom we trust, as PEM; None when nothing is set, and the system's certificates count."""
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


def _pem(text: Password) -> bytes:
    """Files of Java's properties often have a PEM text in one line, with blanks for line ends."""
    lines = text.reveal().strip()
    if "\n" in lines:
        return lines.encode()
    parts = []
    for block in lines.split("-----END "):
        head, _, body = block.rpartition("-----BEGIN ")
        label, dashes, content = body.partition("-----")
        if not dashes:
            parts.append(block)
            continue
        tail = f"{head.removesuffix(' ')}\n" if head else ""
        wrapped = "\n".join(content.split())
        parts.append(f"{tail}-----BEGIN {label}-----\n{wrapped}\n")
    return "-----END ".join(parts).encode()


def _read(name: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            content = file.read(_STORE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSetting(f"{name}={location}: {error.strerror}") from error
    if len(content) > _STORE_BYTES_MAX:
        raise InvalidSetting(f"{name}={location}: this is no store of keys, it is far too large")
    if content.startswith(_JKS_MAGIC):
        raise InvalidSetting(
            f"{name}={location}: JKS stores cannot be read; convert it by `keytool "
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
        raise InvalidSetting(f"{name}={location}: this is neither PEM nor PKCS12")
    try:
        found = pkcs12.load_pkcs12(content, _secret(password))
    except ValueError as error:
        raise InvalidSetting(f"{name}={location}: the password may be wrong: {error}") from error
    if found.key is None or found.cert is None:
        raise InvalidSetting(f"{name}={location}: there is no key with a certificate in it")
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
        raise InvalidSetting(f"{name}={location}: this is neither PEM nor PKCS12")
    try:
        found = pkcs12.load_pkcs12(content, _secret(password))
    except ValueError as error:
        raise InvalidSetting(f"{name}={location}: the password may be wrong: {error}") from error
    chain = [*([found.cert] if found.cert is not None else []), *found.additional_certs]
    pems = (each.certificate.public_bytes(Encoding.PEM).decode("ascii") for each in chain)
    return "".join(pems)


def _secret(password: Password | None) -> bytes | None:
    return None if password is None else password.reveal().encode()
