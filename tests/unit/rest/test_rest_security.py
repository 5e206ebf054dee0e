"""TLS and basic authentication of the REST API's port, and a secured broker."""

import base64
import http.client
import ssl
from collections.abc import Iterator

import pytest

from tests.rest_server import JSON, TIMEOUT_S, RestServer
from tests.secured_broker import SecuredBroker, secured_broker

PASSWORD = "let-alice-in"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="module")
def rest(secured: SecuredBroker) -> Iterator[RestServer]:
    clients = {f"client.{name}": value for name, value in secured.login.items()}
    with RestServer(secured.servers, {**secured.door(alice=PASSWORD), **clients}) as rest:
        yield rest


def status(rest: RestServer, secured: SecuredBroker, credentials: str | None) -> int:
    context = ssl.create_default_context(cafile=secured.ca)
    connection = http.client.HTTPSConnection(rest.address, timeout=TIMEOUT_S, context=context)
    headers = {"Content-Type": JSON}
    if credentials is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
    try:
        connection.request("POST", "/topics/tea", b'{"records": [{"value": 1}]}', headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_only_users_with_a_password_may_produce(rest: RestServer, secured: SecuredBroker) -> None:
    assert rest.url.startswith("https://")
    assert status(rest, secured, f"alice:{PASSWORD}") == 200
    assert status(rest, secured, "alice:wrong") == 401
    assert status(rest, secured, "mallory:") == 401
    assert status(rest, secured, None) == 401


def test_settings_of_kafka_clients_are_not_reported_as_unknown(rest: RestServer) -> None:
    assert "is ignored" not in rest.log_text
