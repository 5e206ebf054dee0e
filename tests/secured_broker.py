"""A broker for tests that speaks TLS and asks for a login, and the file that lets one in."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.common.settings.java_properties import format_properties
from headwater.testing import EmbeddedBroker
from tests.certificates import Authority

SECRET = "admin-secret-of-tests"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """Its address, its CA certificate and the credentials of its users."""

    broker: EmbeddedBroker
    authority: Authority
    folder: Path

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def login(self) -> dict[str, str]:
        """Settings of a client, without the brokers."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.ca,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": SECRET,
        }

    @property
    def client(self) -> dict[str, str]:
        """Settings of a client."""
        return {**self.login, "bootstrap.servers": self.servers}

    def file(self, **more: str) -> Path:
        """A file of these settings, and of others: a name's dots are written as underscores."""
        others = {name.replace("_", "."): value for name, value in more.items()}
        return properties(self.folder / "client.properties", {**self.login, **others})

    def door(self, **users: str) -> dict[str, str]:
        """Settings of an HTTP port with TLS, and for these users."""
        own = self.authority.identity("door", hosts=["127.0.0.1", "localhost"])
        file = properties(self.folder / "users.properties", users)
        return {
            "ssl.keystore.location": str(own.write_pem(self.folder / "door.pem")),
            "authentication.method": "BASIC",
            "headwater.authentication.users.file": str(file),
        }


def properties(path: Path, settings: dict[str, str]) -> Path:
    path.write_bytes(format_properties(settings))
    return path


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    authority = Authority()
    authority.write(folder / "ca.pem")
    own = authority.identity("broker", hosts=["127.0.0.1", "localhost"])
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "ssl.keystore.location": str(own.write_pem(folder / "broker.pem")),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{_PLAIN} required user_admin="{SECRET}";'
        ),
    }
    with EmbeddedBroker(settings) as broker:
        yield SecuredBroker(broker, authority, folder)
