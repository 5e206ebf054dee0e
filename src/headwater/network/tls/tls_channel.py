"""Transport layer with TLS (SslTransportLayer).

Bytes go through memory BIOs on both sides of OpenSSL, so that one system call moves many TLS
records. Notes:

- Decrypted bytes may be buffered here when the socket has none, and no selector knows of them.
  Owners watch the channel through `headwater.network.tls.tls_handshake`.
- Bytes count as sent when their encrypted form has been sent. Data that was encrypted but not sent
  must be passed to `send` again first; it is not encrypted twice. `SendQueue` does just that.
- The descriptor may be readable though nothing can be received yet: half a TLS record has arrived.
"""

import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, cast

from headwater.common.exceptions import ConnectionLost, TlsHandshakeFailed
from headwater.records.batch_header import Buffer

# Four TLS records. Larger pieces were slower, because they exceed the CPU cache.
_PIECE_BYTES: Final = 65_536
SCRATCH_BYTES: Final = 131_072
"""How much is read from a socket at once: eight TLS records."""

# What OpenSSL itself may send while we only receive: alerts to a peer that wants to renegotiate. A
# peer that causes more than this without reading is disconnected.
_UNREAD_ALERTS_BYTES_MAX: Final = 65_536

_NOTHING: Final = memoryview(b"")


class TlsTransportLayer:
    """`TransportLayer` over a socket and one end of a TLS session."""

    __slots__ = (
        "_fd",
        "_has_received",
        "_incoming",
        "_is_broken",
        "_is_handshake_done",
        "_outgoing",
        "_scratch",
        "_socket",
        "_tls",
        "_unsent",
        "_unsent_piece_bytes",
        "has_undelivered",
    )

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        scratch: memoryview,
        *,
        server_name: str | None = None,
    ) -> None:
        """`server_name` is for a client; a thread's channels may share the scratch."""
        connected.setblocking(False)
        self._socket = connected
        self._fd = connected.fileno()
        self._scratch = scratch
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._unsent = _NOTHING
        self._unsent_piece_bytes = 0
        self._is_handshake_done = False
        self._is_broken = False
        self._has_received = False
        self.has_undelivered = False
        """Whether more can be received at once, even if the socket is not readable."""

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket."""
        return bool(self._unsent)

    @property
    def peer_certificate(self) -> bytes | None:
        """The verified certificate of the peer, as DER."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        return self._fd

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is complete and all of it sent.

        Raises `TlsHandshakeFailed` if one end rejects the other, `ConnectionLost` if the peer
        disconnected.
        """
        while not self._is_handshake_done:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._flush() or not self._fill():
                    return False
            except ssl.SSLEOFError as error:
                self._is_broken = True
                raise ConnectionLost("the peer disconnected during the TLS handshake") from error
            except ssl.SSLError as error:
                raise self._handshake_error(error) from error
            else:
                self._is_handshake_done = True
                # The peer's first request may have arrived with the end of its handshake.
                self.has_undelivered = self._incoming.pending > 0
        return self._flush()

    def receive_into(self, room: memoryview) -> int | None:
        total = 0
        self.has_undelivered = False
        while total < len(room):
            try:
                # With a buffer it returns a number of bytes, whatever its type annotation says.
                count = cast("int", self._tls.read(len(room) - total, room[total:]))
            except ssl.SSLWantReadError:
                if total:
                    break
                if not self._fill():
                    self._flush_alerts()
                    return None
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Kafka's frames have a size field, so an end without close_notify hides no
                # truncation.
                count = 0
            except ssl.SSLError as error:
                raise self._connection_error(error) from error
            if not count:
                self.has_undelivered = total > 0
                break
            total += count
            self._has_received = True
            if not (self._tls.pending() or self._incoming.pending):
                return total
        else:
            self.has_undelivered = True
        return total

    def send(self, buffers: Sequence[Buffer], *, more: bool) -> int | None:
        del more  # Each call makes its own TLS records, which are sent at once.
        if self._unsent_piece_bytes:
            return self._send_rest()
        total = 0
        for piece in _pieces(buffers):
            if not self._send_piece(piece):
                break
            total += len(piece)
        return total or None

    def send_file(self, descriptor: int, position: int, length: int) -> int | None:
        if self._unsent_piece_bytes:
            return self._send_rest()
        total = 0
        while total < length:
            room = self._scratch[: min(_PIECE_BYTES, length - total)]
            try:
                count = os.preadv(descriptor, [room], position + total)
            except OSError as error:
                raise ConnectionLost(f"reading the file to send failed: {error}") from error
            if not count:
                return total
            if not self._send_piece(room[:count]):
                break
            total += count
        return total or None

    def end_sending(self) -> None:
        self._send_close_notify()
        self._flush()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise ConnectionLost(f"shutdown failed: {error}") from error

    def close(self) -> None:
        with suppress(ConnectionLost):
            if not self._unsent:
                self._send_close_notify()
                self._flush()
        self._socket.close()

    # The two directions.

    def _fill(self) -> bool:
        """Read encrypted bytes from the socket; False when there are none."""
        try:
            count = self._socket.recv_into(self._scratch)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._is_broken = True
            raise ConnectionLost(f"receiving failed: {error}") from error
        if count:
            self._incoming.write(self._scratch[:count])
        else:
            self._incoming.write_eof()
        return True

    def _flush(self) -> bool:
        """Send encrypted bytes; return whether all of them were sent."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                self._is_broken = True
                raise ConnectionLost(f"sending failed: {error}") from error
            self._unsent = self._unsent[sent:] if sent < len(self._unsent) else _NOTHING
        return True

    def _send_piece(self, piece: Buffer) -> bool:
        """Encrypt and send a piece; False if the socket is full (sent later)."""
        try:
            self._tls.write(piece)
        except ssl.SSLError as error:
            raise self._connection_error(error) from error
        if self._flush():
            return True
        self._unsent_piece_bytes = len(piece)
        return False

    def _send_rest(self) -> int | None:
        if not self._flush():
            return None
        piece_bytes, self._unsent_piece_bytes = self._unsent_piece_bytes, 0
        return piece_bytes

    def _flush_alerts(self) -> None:
        """Send OpenSSL's own messages, after what was sent before."""
        if not self._flush() and self._outgoing.pending > _UNREAD_ALERTS_BYTES_MAX:
            raise ConnectionLost("the peer causes TLS alerts without reading them")

    def _send_close_notify(self) -> None:
        if self._is_handshake_done and not self._is_broken:
            # `unwrap` would wait for the peer's close_notify, which is not needed: it usually
            # raises SSLWantReadError.
            with suppress(ssl.SSLError):
                self._tls.unwrap()

    # Failures.

    def _handshake_error(self, error: ssl.SSLError) -> TlsHandshakeFailed:
        self._is_broken = True
        # Send the TLS alert, if the peer still reads.
        with suppress(ConnectionLost):
            self._flush()
        return TlsHandshakeFailed(f"TLS handshake failed: {ssl_error_reason(error)}")

    def _connection_error(self, error: ssl.SSLError) -> ConnectionLost:
        """Return the error of a broken connection.

        With TLS 1.3 a server verifies a client's certificate after the client has completed its
        handshake.
        """
        if not self._has_received:
            return self._handshake_error(error)
        self._is_broken = True
        return ConnectionLost(f"TLS failed: {ssl_error_reason(error)}")


def ssl_error_reason(error: ssl.SSLError) -> str:
    """Format OpenSSL's reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not trusted: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if reason in ("wrong version number", "http request", "unsupported protocol"):
        return f"{reason}; does the peer use TLS on this port?"
    return reason


def tls_error_reason(error: Exception) -> str | None:
    """Format the reason of an error, if it is a TLS error."""
    return ssl_error_reason(error) if isinstance(error, ssl.SSLError) else None


def _pieces(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Split buffers into pieces of bounded size, joining small ones."""
    if len(buffers) == 1 and len(buffers[0]) <= _PIECE_BYTES:
        return [buffers[0]]
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        view = memoryview(buffer)
        for start in range(0, len(view), _PIECE_BYTES):
            part = view[start : start + _PIECE_BYTES]
            if small_bytes + len(part) > _PIECE_BYTES:
                pieces.append(b"".join(small) if len(small) > 1 else small[0])
                small, small_bytes = [], 0
            small.append(part)
            small_bytes += len(part)
    if small:
        pieces.append(b"".join(small) if len(small) > 1 else small[0])
    return pieces
