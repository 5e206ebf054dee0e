"""Pure rules of the network package: endpoints, connection quotas, idle expiry."""

from dataclasses import dataclass

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.network.endpoint import Endpoint, parse_endpoint, parse_endpoints
from headwater.network.event_loop import Callback
from headwater.network.limits.connection_quotas import (
    ConnectionQuotas,
    parse_overrides,
    plain_address,
)
from headwater.network.limits.idle_expiry import IdleExpiryManager
from headwater.network.limits.inflight_bytes import ByteLimit
from headwater.network.network_settings import NetworkSettings
from tests.simulation.fakes.scripted_network import SteppedLoop


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://:9092", "PLAINTEXT", "", 9092),
        ("inside://localhost:0", "INSIDE", "localhost", 0),
        ("A_b://10.0.0.1:65535", "A_B", "10.0.0.1", 65535),
        ("X://[::1]:9092", "X", "::1", 9092),
        ("X://[fe80::1%eth0]:9092", "X", "fe80::1%eth0", 9092),
    ],
)
def test_listener_is_a_name_a_host_and_a_port(text: str, name: str, host: str, port: int) -> None:
    assert parse_endpoint(text) == Endpoint(name=name, host=host, port=port)
    assert parse_endpoint(str(parse_endpoint(text))) == parse_endpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:9092",
        "X://host",
        "X://host:65536",
        "X://::1:9092",
        "X://h:9092/path",
        "X://h:-1",
    ],
)
def test_invalid_listener_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_endpoints(text)


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("A://h:1,B://h:2", True),
        ("A://h:1,A://h:2", False),
        ("A://h:1,a://h:2", False),
        ("A://h:1,B://h:1", False),
        ("A://h:0,B://h:0", True),
        ("A://127.0.0.1:1,B://[::1]:1", True),
        ("A://:1,B://[::1]:1", False),
        ("A://127.0.0.1:1,B://[::1]:1,C://10.0.0.1:1", False),
    ],
)
def test_listener_names_and_ports_are_unique_except_for_ipv4_and_ipv6(
    text: str, is_allowed: bool
) -> None:
    if is_allowed:
        assert [str(endpoint) for endpoint in parse_endpoints(text)] == text.split(",")
    else:
        with pytest.raises(InvalidSetting):
            parse_endpoints(text)


def test_address_is_normalised() -> None:
    assert plain_address("::ffff:10.0.0.1") == plain_address("10.0.0.1") == "10.0.0.1"
    assert plain_address("0:0:0:0:0:0:0:1") == plain_address("::1%lo") == "::1"


def test_overrides_per_ip_are_parsed() -> None:
    assert parse_overrides("10.0.0.1:200, [::1]:0,") == {"10.0.0.1": 200, "::1": 0}
    for text in ("10.0.0.1", "10.0.0.1:x", ":5", "10.0.0.1:-1"):
        with pytest.raises(InvalidSetting):
            parse_overrides(text)


def test_closed_connection_makes_room_for_another() -> None:
    connection_quotas = ConnectionQuotas(
        NetworkSettings(max_connections_per_ip=1, max_connections=2)
    )
    assert connection_quotas.inc("A", "10.0.0.1") is None
    assert connection_quotas.inc("A", "10.0.0.1") == "max.connections.per.ip"
    assert connection_quotas.inc("A", "10.0.0.2") is None
    assert connection_quotas.inc("A", "10.0.0.3") == "max.connections"
    connection_quotas.dec("A", "10.0.0.1")
    assert connection_quotas.address_count == 1
    assert connection_quotas.inc("A", "10.0.0.1") is None


def test_creation_rate_allows_a_burst_of_one_second() -> None:
    connection_quotas = ConnectionQuotas(NetworkSettings(max_connection_creation_rate=3))
    connection_quotas.refill(1_000)

    def accepted() -> int:
        count = 0
        while connection_quotas.may_accept("A"):
            connection_quotas.inc("A", f"10.0.0.{count}")
            count += 1
        return count

    assert accepted() == 3
    connection_quotas.refill(1_200)
    assert accepted() == 0
    connection_quotas.refill(1_700)
    assert accepted() == 2
    connection_quotas.refill(100_000)
    assert accepted() == 3


def test_many_clients_do_not_block_inter_broker_connections() -> None:
    """KIP-402, KIP-612: limits of the whole broker do not apply to the inter-broker listener."""
    settings = NetworkSettings(
        max_connections=1, max_connections_per_ip=2, max_connection_creation_rate=1
    )
    connection_quotas = ConnectionQuotas(settings, protected="BROKERS")
    assert connection_quotas.inc("CLIENTS", "10.0.0.1") is None
    assert not connection_quotas.may_accept("CLIENTS")
    assert connection_quotas.inc("CLIENTS", "10.0.0.2") == "max.connections"
    for expected in (None, None, "max.connections.per.ip"):
        assert connection_quotas.may_accept("BROKERS")
        assert connection_quotas.inc("BROKERS", "10.0.0.3") == expected


def test_waiting_callbacks_run_in_order_while_there_is_room() -> None:
    loop = SteppedLoop()
    bound = ByteLimit(loop, 2)
    called: list[str] = []

    def caller(name: str) -> Callback:
        def call() -> None:
            called.append(name)
            bound.acquire(1)

        return call

    bound.acquire(3)
    assert bound.is_full
    for name in ("first", "second", "third"):
        bound.wait(caller(name))
    bound.release(1)
    loop.run()
    assert called == []
    bound.release(1)
    assert called == [], "never at once"
    loop.run()
    assert called == ["first"]
    assert bound.waiting_count == 2


@dataclass(eq=False)
class Watched:
    active_ms: int


def test_only_idle_connections_expire_and_on_time() -> None:
    wheel: IdleExpiryManager[Watched] = IdleExpiryManager(10_000)
    silent, active, gone = Watched(0), Watched(500), Watched(0)
    for watched in (silent, active, gone):
        wheel.add(watched)
    wheel.remove(gone)
    active.active_ms = 9_999
    assert wheel.expired(9_999) == []
    assert wheel.expired(10_000) == [silent]
    wheel.remove(silent)
    wheel.remove(silent)
    assert wheel.expired(19_998) == []
    assert wheel.expired(20_000) == [active]


def test_negative_idle_time_expires_nothing() -> None:
    wheel: IdleExpiryManager[Watched] = IdleExpiryManager(-1)
    wheel.add(Watched(0))
    assert wheel.expired(10**15) == []
