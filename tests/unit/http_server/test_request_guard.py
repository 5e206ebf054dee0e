"""Protection of HTTP ports from pages of other sites."""

from collections.abc import Mapping

import pytest

from headwater.http_server.http_settings import HttpAddress, read_http_settings
from headwater.http_server.request_guard import (
    ANY_HOST,
    Forbidden,
    Guard,
    is_loopback,
)

GUARD = Guard(service="registry", hosts=frozenset({"tea.example", "*.svc.cluster.local"}))


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8080", "localhost", "localhost:1", "[::1]:8080", "[::1]", "10.0.0.7"),
        *("tea.example", "TEA.example.:8081", "schema-registry:8081", "a.localhost"),
        *("registry.shop.svc.cluster.local", "a.b.svc.cluster.local:8081"),
    ],
)
def test_ip_addresses_names_without_a_dot_and_allowed_names_are_served(host: str) -> None:
    GUARD.check_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", ":8081", "evil.example", "127.0.0.1.evil.example:8080", "tea.example.evil"),
        *("svc.cluster.local", "svc.cluster.local.evil.example", "[::1].evil.example"),
        *("localhost.evil.example", "eviltea.example", "not.tea.example"),
    ],
)
def test_other_host_names_are_rejected(host: str | None) -> None:
    """DNS rebinding: a page of another site whose name points to this machine."""
    with pytest.raises(Forbidden):
        GUARD.check_host(host)


def test_any_host_name_can_be_allowed() -> None:
    Guard(service="registry", hosts=frozenset({ANY_HOST})).check_host("registry.example")


def test_changes_need_the_same_origin_or_a_program() -> None:
    GUARD.check_origin({"host": "localhost:8080"})
    GUARD.check_origin({"host": "localhost:8080", "origin": "http://localhost:8080"})
    GUARD.check_origin({"host": "tea.example", "origin": "https://tea.example"})
    for headers in (
        {"host": "localhost:8080", "origin": "http://evil.example"},
        {"host": "localhost:8080", "origin": "http://localhost:9999"},
        {"host": "localhost:8080", "origin": "null"},
        {"host": "localhost:8080", "sec-fetch-site": "cross-site"},
        {"host": "localhost:8080", "sec-fetch-site": "same-site"},
    ):
        with pytest.raises(Forbidden):
            GUARD.check_origin(headers)


@pytest.mark.parametrize(
    ("headers", "is_served"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
def test_other_sites_may_link_but_not_load(headers: Mapping[str, str], is_served: bool) -> None:
    if is_served:
        GUARD.check_reader(headers)
    else:
        with pytest.raises(Forbidden):
            GUARD.check_reader(headers)


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "tea.example")))


def test_host_names_come_from_options_settings_and_the_listen_address() -> None:
    settings, others = read_http_settings(
        {"headwater.allowed.hosts": "A.example, *.b.example", "host.name": "c.example"}
    )
    assert others == []
    door = HttpAddress.of(settings, "d.example:8081", "127.0.0.1:8081", ["E.example."])
    assert door.hosts == {"a.example", "*.b.example", "c.example", "d.example", "e.example"}
