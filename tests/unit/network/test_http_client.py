"""Fetching documents over HTTP: complete and in time, or an error."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headwater.common.exceptions import HttpFetchFailed, InvalidSetting
from headwater.network.http_client import (
    LIMIT_BYTES,
    HttpConnection,
    HttpLocation,
    fetch,
    http_location,
)
from tests.simulation.fakes.identity_provider import identity_provider

TIMEOUT_S = 60.0


@contextmanager
def server_that_says(answer: bytes, *, then_hangs_up: bool) -> Iterator[HttpLocation]:
    """A server that sends this to the first client, whatever it requests."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            talking, _ = listening.accept()
            with talking:
                talking.recv(65_536)
                talking.sendall(answer)
                while not then_hangs_up and talking.recv(65_536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield http_location(f"http://127.0.0.1:{listening.getsockname()[1]}/doc?key=hidden", "x")
        thread.join()


def answers_per_connection(listening: socket.socket, counts: list[int]) -> threading.Thread:
    """Answer this many requests on each connection in turn, then close it."""

    def serve() -> None:
        for number, count in enumerate(counts):
            talking, _ = listening.accept()
            with talking:
                for _ in range(count):
                    if not talking.recv(65_536):
                        break
                    talking.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_connection_is_reused_and_reopened_after_the_server_closed_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = answers_per_connection(listening, [2, 1])
        location = http_location(f"http://127.0.0.1:{listening.getsockname()[1]}", "x")
        connection = HttpConnection(location, timeout_s=TIMEOUT_S)
        assert [connection.request("GET", "/") for _ in range(3)] == [
            (200, b"0"),
            (200, b"0"),
            (200, b"1"),
        ]
        connection.close()
        thread.join()


def test_request_on_a_new_connection_is_not_repeated() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = answers_per_connection(listening, [0])
        location = http_location(f"http://127.0.0.1:{listening.getsockname()[1]}", "x")
        connection = HttpConnection(location, timeout_s=TIMEOUT_S)
        with pytest.raises(ConnectionError):
            connection.request("GET", "/")
        thread.join()


def test_document_is_fetched_and_form_is_posted() -> None:
    with identity_provider() as provider:
        assert fetch(http_location(provider.keys_url, "x"), timeout_s=TIMEOUT_S) == provider.keys
        with pytest.raises(
            HttpFetchFailed, match=r"/token answers 401 \(invalid_client\)$"
        ) as failure:
            fetch(
                http_location(provider.token_url, "x"),
                timeout_s=TIMEOUT_S,
                headers={"Authorization": "Basic s3cret"},
                body=b"grant_type=client_credentials",
            )
    assert not failure.value.is_retriable
    assert provider.asked == ["/keys", "/token"]


def test_server_error_may_be_retried() -> None:
    with identity_provider() as provider:
        provider.failures = [503]
        with pytest.raises(HttpFetchFailed, match="answers 503") as failure:
            fetch(http_location(provider.keys_url, "x"), timeout_s=TIMEOUT_S)
    assert failure.value.is_retriable
    with pytest.raises(HttpFetchFailed, match="does not answer") as failure:
        fetch(http_location(provider.keys_url, "x"), timeout_s=TIMEOUT_S)
    assert failure.value.is_retriable


def test_redirect_is_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n"
    with (
        server_that_says(answer, then_hangs_up=True) as place,
        pytest.raises(HttpFetchFailed, match="answers 302"),
    ):
        fetch(place, timeout_s=TIMEOUT_S)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"])
def test_stalled_server_times_out(answer: bytes) -> None:
    with (
        server_that_says(answer, then_hangs_up=False) as place,
        pytest.raises(HttpFetchFailed) as failure,
    ):
        fetch(place, timeout_s=0.2)
    assert failure.value.is_retriable
    assert "hidden" not in str(failure.value)


def test_slow_server_times_out_although_each_byte_is_in_time() -> None:
    """Each byte comes in time; all of them do not."""
    pause = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            talking, _ = listening.accept()
            with talking, suppress(OSError):
                talking.recv(65_536)
                talking.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                for _ in range(100):
                    talking.sendall(b"x")
                    pause.wait(0.05)

        thread = threading.Thread(target=serve)
        thread.start()
        place = http_location(f"http://127.0.0.1:{listening.getsockname()[1]}/", "x")
        with pytest.raises(HttpFetchFailed):
            fetch(place, timeout_s=0.5)
        pause.set()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_truncated_and_malformed_responses_are_errors(answer: bytes) -> None:
    with (
        server_that_says(answer, then_hangs_up=True) as place,
        pytest.raises(HttpFetchFailed),
    ):
        fetch(place, timeout_s=TIMEOUT_S)


def test_document_size_is_limited(tmp_path: Path) -> None:
    with identity_provider() as provider:
        provider.keys = b"x" * LIMIT_BYTES
        place = http_location(provider.keys_url, "x")
        assert len(fetch(place, timeout_s=TIMEOUT_S)) == LIMIT_BYTES
        provider.keys += b"x"
        with pytest.raises(HttpFetchFailed, match="more than 1048576 bytes"):
            fetch(place, timeout_s=TIMEOUT_S)
    path = tmp_path / "large"
    path.write_bytes(provider.keys)
    with pytest.raises(HttpFetchFailed, match="more than"):
        fetch(http_location(path.as_uri(), "x"), timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://login.example.org:8443/keys?a=b", "https://login.example.org:8443/keys"),
        ("http://localhost", "http://localhost/"),
        ("file:/etc/keys%20of%20tea.json", "file:/etc/keys of tea.json"),
        ("file:///etc/keys.json", "file:/etc/keys.json"),
    ],
)
def test_location_is_shown_without_its_query(url: str, shown: str) -> None:
    assert str(http_location(url, "x")) == shown


@pytest.mark.parametrize(
    "url", ["", "keys", "ftp://a/b", "https://", "http://a:b/", "https://u:p@a/", "file://host/a"]
)
def test_invalid_url_is_rejected_with_the_name_of_its_setting(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^the\.setting"):
        http_location(url, "the.setting")
