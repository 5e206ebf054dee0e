"""Certificates for tests, created on the fly: an authority and the identities it signs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "open-sesame"


def certificate_for(parts: Sequence[x509.RelativeDistinguishedName]) -> bytes:
    """A certificate of that subject as DER, which no authority signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(parts)
    certificate = _builder(name, key).issuer_name(name).sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.DER)


@dataclass(frozen=True, slots=True)
class Identity:
    """A key and its certificate, as the files that settings name."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        return pem.decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.certificate_pem, encoding="ascii")
        return path

    def write_pkcs12(self, path: Path, authority: x509.Certificate) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own",
                self.key,
                self.certificate,
                [authority],
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        return path


class Authority:
    """Vouches for identities."""

    def __init__(self, name: str = "Headwater tests") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            _builder(subject, self.key)
            .issuer_name(subject)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write(self, path: Path) -> Path:
        path.write_text(self.pem, encoding="ascii")
        return path

    def identity(
        self, name: str, *, unit: str | None = None, hosts: Sequence[str] = ()
    ) -> Identity:
        """Sign a certificate; `hosts` are the names of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if unit is not None:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        builder = _builder(x509.Name(attributes), key).issuer_name(self.certificate.subject)
        if hosts:
            names = [_host(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Identity(key, builder.sign(self.key, hashes.SHA256()))


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
