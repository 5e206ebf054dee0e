"""Listeners and log directories, as other clients see them."""

import socket
from pathlib import Path

import pytest

from headwater.network.free_ports import free_ports
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S, Client, Sent, read, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import admin_of, create_topic


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
def test_clients_connect_over_ipv6(topic: str, client: Client) -> None:
    with checked_broker({"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap_servers.startswith("[::1]:")
        assert write(client, broker.bootstrap_servers, topic, [Sent(value=b"v")]) == [(0, 0)]
        assert read(client, broker.bootstrap_servers, topic, 1)[0].value == b"v"


def test_each_listener_has_its_own_advertised_address(topic: str, client: Client) -> None:
    """TO-7. All listeners lead to the same topics."""
    inside, outside = free_ports("127.0.0.1", 2)
    settings = {
        "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "advertised.listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://localhost:{outside}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with checked_broker(settings):
        for port, host in ((inside, "127.0.0.1"), (outside, "localhost")):
            metadata = admin_of(f"127.0.0.1:{port}").list_topics(timeout=TIMEOUT_S)
            assert [str(each) for each in metadata.brokers.values()] == [f"{host}:{port}/0"]
        write(client, f"127.0.0.1:{inside}", topic, [Sent(value=b"v")])
        assert read(client, f"127.0.0.1:{outside}", topic, 1)[0].value == b"v"


def test_partitions_are_spread_over_the_log_directories(tmp_path: Path, topic: str) -> None:
    directories = [tmp_path / "one", tmp_path / "other"]
    together = ",".join(map(str, directories))
    with checked_broker(data_directory=together) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=6)
        sent = [Sent(value=str(number).encode(), partition=number % 6) for number in range(60)]
        write(CONFLUENT, servers, topic, sent)
        for directory in directories:
            assert len(list(directory.glob(f"{topic}-*"))) == 3
        broker.restart()
        received = read(CONFLUENT, servers, topic, 60, partitions=range(6))
        assert sorted(int(each.value or b"") for each in received) == list(range(60))
