"""Create SSL contexts for listeners and clients from Kafka's ssl.* settings.

Note: Python loads keys from files only, so a key from a PKCS12 store or a setting goes through an
anonymous in-memory file; secrets are never written to disk.
"""

import os
import ssl
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.ssl_settings import ListenerSslSettings, SslSettings
from headwater.network.tls.key_stores import OwnKey, own_key, trusted_certificates

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CIPHERS_OF_13: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def listener_context(settings: ListenerSslSettings) -> ssl.SSLContext:
    """Create the context of a listener, or raise `InvalidSetting`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, settings)
    key = own_key(settings)
    if key is None:
        raise InvalidSetting(
            "TLS needs a key and a certificate: set ssl.keystore.location to a PEM or PKCS12 file"
        )
    _load(context, key)
    context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    trusted = trusted_certificates(settings)
    if trusted is not None:
        _trust(context, trusted)
    elif context.verify_mode is not ssl.CERT_NONE:
        raise InvalidSetting(
            f"ssl.client.auth={settings.ssl_client_auth} needs trusted certificates: "
            "set ssl.truststore.location"
        )
    return context


def client_context(settings: SslSettings) -> ssl.SSLContext:
    """Create the context of a client, or raise `InvalidSetting`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, settings)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    key = own_key(settings)
    if key is not None:
        _load(context, key)
    trusted = trusted_certificates(settings)
    if trusted is None:
        context.load_default_certs()
    else:
        _trust(context, trusted)
    return context


def _limit(context: ssl.SSLContext, settings: SslSettings) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    versions = [_VERSIONS[each] for each in settings.ssl_enabled_protocols]
    ciphers = settings.ssl_cipher_suites
    if ciphers:
        versions = _limit_ciphers(context, ciphers, versions)
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _limit_ciphers(
    context: ssl.SSLContext, ciphers: tuple[str, ...], versions: list[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    """Set the ciphers; return the remaining versions. TLS 1.3 has its own ciphers."""
    of_13 = [each for each in ciphers if each in _CIPHERS_OF_13]
    others = [each for each in ciphers if each not in _CIPHERS_OF_13]
    if of_13 and len(of_13) < len(_CIPHERS_OF_13) and ssl.TLSVersion.TLSv1_3 in versions:
        raise InvalidSetting(
            "ssl.cipher.suites: the ciphers of TLS 1.3 cannot be enabled separately; list all of "
            f"{', '.join(_CIPHERS_OF_13)}, or none of them"
        )
    if others:
        try:
            context.set_ciphers(":".join(map(openssl_name, others)))
        except ssl.SSLError as error:
            raise InvalidSetting(f"ssl.cipher.suites: none of {others} is supported") from error
    wanted = {ssl.TLSVersion.TLSv1_2: others, ssl.TLSVersion.TLSv1_3: of_13}
    left = [version for version in versions if wanted[version]]
    if not left:
        raise InvalidSetting("ssl.cipher.suites has no cipher for the enabled protocols")
    return left


def openssl_name(cipher: str) -> str:
    """Translate `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` to OpenSSL's name.

    OpenSSL's own names are returned as they are.
    """
    if not cipher.startswith("TLS_"):
        return cipher
    name = cipher.removeprefix("TLS_").replace("_WITH_", "_").replace("_", "-")
    name = name.replace("AES-128", "AES128").replace("AES-256", "AES256").replace("-CBC-", "-")
    if name.startswith("RSA-"):
        name = name.removeprefix("RSA-")
    return name.removesuffix("-SHA256") if name.endswith("CHACHA20-POLY1305-SHA256") else name


def _load(context: ssl.SSLContext, key: OwnKey) -> None:
    fd = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(key.pem)
        # Without a password OpenSSL would prompt for one at the terminal.
        secret = key.password.reveal() if key.password is not None else ""
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=secret)
    except ssl.SSLError as error:
        raise InvalidSetting(
            f"cannot load the private key: {_reason(error)}; check "
            "ssl.key.password, and that the key belongs to the certificate"
        ) from error
    finally:
        os.close(fd)


def _trust(context: ssl.SSLContext, pem: str) -> None:
    # As in Java, every certificate in the store is trusted, whether it is a CA or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        # There may be comments in any encoding around the certificates, which Python rejects.
        context.load_verify_locations(cadata=pem.encode("ascii", "replace").decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSetting(f"no certificate in the truststore: {error}") from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
