"""TLS on real sockets: requests, files, client certificates, and rejected peers."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from headwater.common.exceptions import ConnectionLost, TlsHandshakeFailed
from headwater.common.principal import ANONYMOUS, Principal, Requester
from headwater.common.settings.password import Password
from headwater.common.settings.ssl_settings import SslSettings
from headwater.network.network_settings import NetworkSettings
from headwater.network.request_service import ResponseSlot
from tests.certificates import Authority
from tests.simulation.labs.connection_lab import framed, keep_waiting
from tests.unit.network.real_sockets import TIMEOUT_S, OpenRange, running
from tests.unit.network.tls.tls_lab import (
    ALICE,
    CLIENT,
    TRUST,
    UNTRUSTED,
    Stream,
    TlsPeer,
    running_tls,
    showing,
)


def message(number: int, content: bytes) -> bytes:
    return framed(number.to_bytes(4, "big") + content)


def test_peer_and_server_exchange_frames_over_tls() -> None:
    async def run() -> None:
        async with running_tls() as broker:
            client = TlsPeer()
            await client.connect(broker.bound.port)
            await client.is_up()
            for number, size in ((1, 0), (2, 10), (3, 16_384), (4, 3_000_000)):
                request = message(number, bytes(size))
                assert framed(await client.ask(number, request)) == request
            client.peer.close()
            await broker.service.until(lambda: broker.service.closed_count == 1)
            assert broker.service.failures == []

    asyncio.run(run())


def test_requests_in_one_tls_record_are_all_served() -> None:
    """The selector sees none of those after the first: they are buffered in OpenSSL."""

    async def run() -> None:
        async with running_tls() as broker:
            client = await Stream.connect(broker.bound.port)
            requests = b"".join(framed(bytes([number]) * 90) for number in range(170))
            await client.send(requests)
            assert await client.receive(len(requests)) == requests
            await client.close()

    asyncio.run(run())


def is_longer(slots: list[ResponseSlot], count: int) -> bool:
    return len(slots) > count


def test_requests_buffered_in_tls_are_served_when_there_is_room_again() -> None:
    async def run() -> None:
        settings = NetworkSettings(headwater_connection_requests_max=2)
        async with running_tls(settings, keep_waiting) as broker:
            client = await Stream.connect(broker.bound.port)
            count = 300
            await client.send(framed(bytes(50)) * count)
            slots = broker.service.slots
            for number in range(count):
                await broker.service.until(partial(is_longer, slots, number))
                broker.service.slots[number].respond([framed(str(number).encode())])
            expected = b"".join(framed(str(number).encode()) for number in range(count))
            assert await client.receive(len(expected)) == expected
            await client.close()

    asyncio.run(run())


def test_file_range_arrives_whole_at_a_slow_reader(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    content = bytes(range(256)) * 20_000
    path.write_bytes(content)
    ranges: list[OpenRange] = []

    def behave(slot: ResponseSlot, _: memoryview) -> None:
        ranges.append(OpenRange(path, 1_000, 5_000_000))
        slot.respond([b"head", ranges[-1], b"tail"])

    async def run() -> None:
        async with running_tls(behave=behave) as broker:
            client = await Stream.connect(broker.bound.port)
            await client.send(framed(b"fetch"))
            # All buffers on the way are full before the reader begins.
            await broker.service.until(lambda: len(broker.service.slots) == 1)
            found = await client.receive(5_000_008)
            assert found == b"head" + content[1_000:5_001_000] + b"tail"
            assert ranges[0].release_count == 1
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("client_auth", "rules", "settings", "principal"),
    [
        ("none", "DEFAULT", CLIENT, ANONYMOUS),
        ("requested", "DEFAULT", CLIENT, ANONYMOUS),
        (
            "required",
            "DEFAULT",
            showing(ALICE),
            Principal("User", "CN=alice,OU=Till"),
        ),
        (
            "requested",
            "RULE:^CN=([^,]*),.*$/$1/U",
            showing(ALICE),
            Principal("User", "ALICE"),
        ),
    ],
)
def test_principal_comes_from_the_client_certificate(
    client_auth: str, rules: str, settings: SslSettings, principal: Principal
) -> None:
    async def run() -> None:
        async with running_tls(client_auth=client_auth, rules=rules) as broker:
            client = TlsPeer(settings)
            await client.connect(broker.bound.port)
            await client.is_up()
            await client.ask(1, message(1, b"x"))
            (connection,) = broker.server.connections
            assert connection.requester == Requester(principal, "127.0.0.1")
            client.peer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        (CLIENT, "DEFAULT"),
        (showing(UNTRUSTED), "DEFAULT"),
        (showing(ALICE), "RULE:CN=b/b/"),
    ],
)
def test_client_without_a_valid_certificate_is_rejected_and_counted(
    settings: SslSettings, rules: str
) -> None:
    async def run() -> None:
        limits = NetworkSettings(max_connections=1)
        async with running_tls(limits, client_auth="required", rules=rules) as broker:
            for count in (1, 2):
                client = TlsPeer(settings)
                await client.connect(broker.bound.port)
                lost = await client.is_lost()
                assert isinstance(lost, ConnectionLost)
                assert broker.server.failed_handshakes == {"PLAINTEXT": count}
            assert broker.service.slots == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "sent",
    [framed(b"a plain request"), b"GET / HTTP/1.1\r\n\r\n", bytes(500), b"\x16\x03\x01\xff\xff"],
)
def test_client_without_tls_is_disconnected_at_once(sent: bytes) -> None:
    async def run() -> None:
        async with running_tls() as broker:
            client = await broker.connect()
            await client.send(sent)
            # It gets a TLS alert, which it may not have read when the connection closes.
            with suppress(ConnectionResetError):
                while await client.receive(1):
                    pass
            assert broker.server.failed_handshakes == {"PLAINTEXT": 1}
            assert not broker.server.connections

    asyncio.run(run())


def test_silent_client_is_closed_after_the_handshake_timeout() -> None:
    async def run() -> None:
        async with running_tls(NetworkSettings(headwater_tls_handshake_timeout_ms=500)) as broker:
            client = await broker.connect()
            other = TlsPeer()
            await other.connect(broker.bound.port)
            await other.is_up()
            broker.server.sweep(499)
            assert not broker.server.failed_handshakes
            broker.server.sweep(500)
            assert await client.sees_the_end()
            assert broker.server.failed_handshakes == {"PLAINTEXT": 1}
            await other.ask(1, message(1, b"still served"))
            other.peer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "host", "reason"),
    [
        (CLIENT, "localhost", "not trusted: .*mismatch"),
        (SslSettings(ssl_truststore_certificates=Password(Authority().pem)), "127.0.0.1", "not tr"),
        (CLIENT, "a..b", "invalid host name for TLS"),
    ],
)
def test_untrusted_server_is_a_named_error(settings: SslSettings, host: str, reason: str) -> None:
    async def run() -> None:
        async with running_tls() as broker:
            client = TlsPeer(settings, host)
            await client.connect(broker.bound.port)
            lost = await client.is_lost()
            assert isinstance(lost, TlsHandshakeFailed)
            with pytest.raises(TlsHandshakeFailed, match=reason):
                raise lost

    asyncio.run(run())


def test_host_name_is_not_verified_if_disabled() -> None:
    settings = SslSettings(
        ssl_truststore_certificates=TRUST, ssl_endpoint_identification_algorithm=""
    )

    async def run() -> None:
        async with running_tls() as broker:
            client = TlsPeer(settings, "localhost")
            await client.connect(broker.bound.port)
            await client.is_up()
            client.peer.close()

    asyncio.run(run())


def test_server_without_tls_is_a_lost_connection() -> None:
    async def run() -> None:
        async with running(NetworkSettings(socket_request_max_bytes=1_000)) as broker:
            client = TlsPeer()
            await client.connect(broker.bound.port)
            assert isinstance(await client.is_lost(), ConnectionLost)

    asyncio.run(run())


def test_stopping_server_sends_close_notify() -> None:
    """Otherwise a client could not distinguish the end from a truncation attack."""

    async def run() -> None:
        async with running_tls() as broker:
            context = ssl.create_default_context(cadata=TRUST.reveal())
            loop = asyncio.get_running_loop()
            raw = (await broker.connect()).socket
            raw.setblocking(True)
            client = await loop.run_in_executor(
                None,
                lambda: context.wrap_socket(
                    raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False
                ),
            )
            client.sendall(framed(b"x"))
            assert await loop.run_in_executor(None, client.recv, 5) == framed(b"x")
            stopping = asyncio.ensure_future(broker.server.stop(drain_ms=TIMEOUT_S * 1_000))
            assert await loop.run_in_executor(None, client.recv, 1) == b""
            client.close()
            await stopping

    asyncio.run(run())
