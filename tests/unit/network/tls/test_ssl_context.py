"""Keys and certificates from keystores and settings, and errors in them."""

import ssl
import subprocess
from pathlib import Path
from shutil import which

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.password import Password
from headwater.common.settings.ssl_settings import (
    ClientSslSettings,
    ListenerSslSettings,
    SslSettings,
)
from headwater.network.tls.key_stores import own_key, trusted_certificates
from headwater.network.tls.ssl_context import client_context, listener_context, openssl_name
from tests.certificates import PASSWORD, Authority

AUTHORITY = Authority()
OWN = AUTHORITY.identity("own", hosts=["localhost"])
OTHER = AUTHORITY.identity("other")
WRONG = Password("let-me-in")
RIGHT = Password(PASSWORD)


def listening(**values: object) -> ListenerSslSettings:
    # The names are checked by the dataclass itself.
    return ListenerSslSettings(**values)  # type: ignore[arg-type]


def test_key_comes_from_a_pem_file_from_pkcs12_or_from_settings(
    tmp_path: Path,
) -> None:
    pem = str(OWN.write_pem(tmp_path / "own.pem"))
    encrypted = str(OWN.write_pem(tmp_path / "encrypted.pem", PASSWORD))
    pkcs12 = str(OWN.write_pkcs12(tmp_path / "own.p12", AUTHORITY.certificate))
    key, chain = OWN.key_pem(), OWN.certificate_pem
    for settings in (
        listening(ssl_keystore_location=pem),
        listening(ssl_keystore_location=encrypted, ssl_key_password=RIGHT),
        listening(ssl_keystore_location=pkcs12, ssl_keystore_password=RIGHT),
        listening(ssl_keystore_key=Password(key), ssl_keystore_certificate_chain=Password(chain)),
        # As in a Java properties file.
        listening(
            ssl_keystore_key=Password(key.replace("\n", " ")),
            ssl_keystore_certificate_chain=Password((chain + AUTHORITY.pem).replace("\n", " ")),
        ),
    ):
        listener_context(settings)


def test_trusted_certificates_come_from_the_same_places(tmp_path: Path) -> None:
    pem = str(AUTHORITY.write(tmp_path / "authority.pem"))
    remarks = tmp_path / "remarks.pem"
    remarks.write_text(f"# Főtanúsítvány\n{AUTHORITY.pem}", encoding="utf-8")
    pkcs12 = str(OWN.write_pkcs12(tmp_path / "own.p12", AUTHORITY.certificate))
    for settings in (
        SslSettings(ssl_truststore_location=pem),
        SslSettings(ssl_truststore_location=str(remarks)),
        SslSettings(ssl_truststore_location=pkcs12, ssl_truststore_password=RIGHT),
        SslSettings(ssl_truststore_certificates=Password(AUTHORITY.pem)),
        SslSettings(ssl_truststore_certificates=Password(AUTHORITY.pem.replace("\n", " "))),
        ClientSslSettings(ssl_ca_location=pem),
    ):
        found = client_context(settings).get_ca_certs(binary_form=True)
        assert ssl.PEM_cert_to_DER_cert(AUTHORITY.pem) in found
    assert trusted_certificates(SslSettings()) is None


@pytest.mark.skipif(which("keytool") is None, reason="there is no Java here")
def test_keytool_stores_are_read_or_the_conversion_is_explained(tmp_path: Path) -> None:
    command = ["keytool", "-genkeypair", "-alias", "own", "-keyalg", "RSA", "-dname", "CN=java"]
    secrets = ["-storepass", PASSWORD, "-keypass", PASSWORD]
    for kind in ("PKCS12", "JKS"):
        path = tmp_path / kind
        made = [*command, *secrets, "-storetype", kind, "-keystore", str(path)]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
    settings = listening(
        ssl_keystore_location=str(tmp_path / "PKCS12"),
        ssl_keystore_password=RIGHT,
        ssl_truststore_location=str(tmp_path / "PKCS12"),
        ssl_truststore_password=RIGHT,
        ssl_client_auth="required",
    )
    assert len(listener_context(settings).get_ca_certs()) <= 1
    with pytest.raises(InvalidSetting, match="keytool -importkeystore"):
        own_key(SslSettings(ssl_keystore_location=str(tmp_path / "JKS")))


def test_store_errors_are_reported_without_secrets(tmp_path: Path) -> None:
    encrypted = str(OWN.write_pem(tmp_path / "encrypted.pem", PASSWORD))
    pkcs12 = str(OWN.write_pkcs12(tmp_path / "own.p12", AUTHORITY.certificate))
    (tmp_path / "mixed.pem").write_text(OWN.key_pem() + OTHER.certificate_pem, encoding="ascii")
    (tmp_path / "noise").write_bytes(b"\x00\x01")
    for reason, settings in (
        ("TLS needs a key", listening()),
        ("check ssl.key.password", listening(ssl_keystore_location=encrypted)),
        (
            "check ssl.key.password",
            listening(ssl_keystore_location=encrypted, ssl_key_password=WRONG),
        ),
        (
            "check the password",
            listening(ssl_keystore_location=pkcs12, ssl_keystore_password=WRONG),
        ),
        ("mismatch", listening(ssl_keystore_location=str(tmp_path / "mixed.pem"))),
        ("neither PEM nor PKCS12", listening(ssl_keystore_location=str(tmp_path / "noise"))),
        ("No such file", listening(ssl_keystore_location=str(tmp_path / "nowhere"))),
        ("must be set together", listening(ssl_keystore_key=Password(OWN.key_pem()))),
        (
            "not both",
            listening(ssl_keystore_key=Password(OWN.key_pem()), ssl_keystore_location=encrypted),
        ),
        (
            "needs trusted certificates",
            listening(
                ssl_keystore_location=pkcs12,
                ssl_keystore_password=RIGHT,
                ssl_client_auth="required",
            ),
        ),
    ):
        with pytest.raises(InvalidSetting, match=reason) as told:
            listener_context(settings)
        assert WRONG.reveal() not in str(told.value)
        assert "BEGIN" not in str(told.value)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_ciphers_have_java_or_openssl_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(openssl)


def test_protocols_and_ciphers_are_limited_by_settings() -> None:
    newest = client_context(SslSettings(ssl_enabled_protocols=("TLSv1.3",)))
    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3
    one = client_context(SslSettings(ssl_cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)))
    assert one.maximum_version is ssl.TLSVersion.TLSv1_2
    assert newest.options & ssl.OP_NO_RENEGOTIATION
    for reason, suites in (
        ("cannot be enabled separately", ("TLS_AES_256_GCM_SHA384",)),
        ("is supported", ("TLS_KRB5_WITH_RC4_128_MD5",)),
    ):
        with pytest.raises(InvalidSetting, match=reason):
            client_context(SslSettings(ssl_cipher_suites=suites))
