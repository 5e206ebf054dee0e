"""A client that sends any request, in any version, and sees every byte of the answer.

Blocking and plain: one socket, one request at a time. It speaks with the codecs of
`headwater.protocol`, so what those cannot say (garbage, broken frames) goes through `send_bytes`.
"""

import socket
from typing import Final, Self, TypeVar

from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, response_class, write
from headwater.protocol.headers import (
    read_correlation_id,
    request_frame,
    response_body_position,
)
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part

R = TypeVar("R", bound=Message)

CLIENT_ID: Final = "peer"
_TIMEOUT_S: Final = 30
_SIZE_BYTES: Final = 4


class ConnectionClosed(ConnectionError):
    """The broker closed the connection instead of responding."""


def newest_version(request: Message) -> int:
    return APIS[request.api].newest_served(unstable=False)


class RawClient:
    def __init__(
        self, bootstrap_servers: str, client_id: str = CLIENT_ID, *, source: str | None = None
    ) -> None:
        """`source` is the local address, if it matters."""
        host, _, port = bootstrap_servers.rpartition(":")
        self.host = host
        self.port = int(port)
        self._source = None if source is None else (source, 0)
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._client_id = client_id

    def ask(self, request: Message, version: int) -> Message:
        """Return the response to a request, or raise ConnectionClosed."""
        self.send(request, version)
        frame = self.receive()
        correlation_id = read_correlation_id(frame)
        assert correlation_id == self._correlation_id, "an answer to some other request"
        return self.read(request, version, frame)

    def send(self, request: Message, version: int) -> int:
        self._correlation_id += 1
        api = APIS[request.api]
        body = write(request, version)
        frame = request_frame(api, version, self._correlation_id, self._client_id, body)
        self.send_bytes(b"".join(_content(part) for part in frame))
        return self._correlation_id

    def read(self, request: Message, version: int, frame: memoryview) -> Message:
        position = response_body_position(APIS[request.api], version, frame)
        return read(response_class(request.api), version, frame[position:])

    def send_bytes(self, content: bytes) -> None:
        try:
            self._connected().sendall(content)
        except OSError as error:
            self.close()
            raise ConnectionClosed(str(error)) from error

    def receive(self) -> memoryview:
        """The next frame, without its size."""
        size = int.from_bytes(self._receive_exactly(_SIZE_BYTES))
        return memoryview(self._receive_exactly(size))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(
                (self.host, self.port), timeout=_TIMEOUT_S, source_address=self._source
            )
        return self._socket

    def _receive_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                some = self._connected().recv(count - len(received))
            except ConnectionResetError:
                some = b""
            if not some:
                self.close()
                raise ConnectionClosed("the broker closed the connection")
            received += some
        return bytes(received)


def _content(part: Part) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "requests are not sent from files"
    return bytes(part)
