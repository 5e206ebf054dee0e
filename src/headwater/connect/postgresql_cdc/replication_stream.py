"""Receive messages of a replication slot by streaming replication.

    client                                        server
    START_REPLICATION SLOT s LOGICAL lsn (...) ->
                                               <- CopyBothResponse
                                               <- 'w' start LSN, end LSN, time, pgoutput message
    'r' written, flushed, applied LSN, time, reply now ->
                                               <- 'k' end LSN, time, reply wanted

psycopg's low-level module `pq` is libpq, so the address, passwords, TLS and environment variables
have the same meaning as for ADBC, which is libpq too.

Note: the server never times this client out (`wal_sender_timeout=0`), because a batch may take
longer than any timeout to be written. TCP keepalives tell it that a client's machine is gone.
"""

import struct
import time
from typing import Any, Final

from headwater.connect.postgresql_cdc.pgoutput import POSTGRESQL_EPOCH_US, Lsn, format_lsn
from headwater.connect.postgresql_cdc.replication_slot import (
    SESSION_SETTINGS,
    SlotInUse,
    literal,
    psycopg_module,
    quoted_name,
    refusal,
)
from headwater.connect.postgresql_client import DatabaseUnavailable

_WALSENDER_SETTINGS: Final = {
    "wal_sender_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
_STATUS_UPDATE: Final = struct.Struct(">cQQQqB")
_KEEPALIVE: Final = struct.Struct(">cQqB")
_XLOG_DATA_HEADER: Final = struct.Struct(">cQQq")
RETRY_DELAY_S: Final = 0.2


class ReplicationStream:
    """One connection that streams a slot from an LSN on.

    `slot_patience_s`: how long to wait for a slot that is in use. PostgreSQL needs a moment to
    notice that an earlier process is dead.
    """

    def __init__(
        self, uri: str, *, slot: str, publication: str, start: Lsn, slot_patience_s: float = 30
    ) -> None:
        self._psycopg = psycopg_module()
        self._slot = slot
        self._flushed = Lsn(0)
        self._is_reply_due = False
        self._connection = self._connect(uri)
        until_s = time.monotonic() + slot_patience_s
        while True:
            try:
                self._start(publication, start)
            except SlotInUse:
                if time.monotonic() >= until_s:
                    self.close()
                    raise
                time.sleep(RETRY_DELAY_S)
            except BaseException:
                self.close()
                raise
            else:
                return

    def read(self) -> tuple[bytes | None, Lsn]:
        """The next message and the LSN of the server; no message means a keepalive.

        If nothing is there, ask the server how far it is and wait for what comes first.
        """
        connection = self._connection
        try:
            size, data = connection.get_copy_data(1)
            if size == 0:
                connection.consume_input()
                size, data = connection.get_copy_data(1)
            if size == 0:
                if not self._is_reply_due:
                    self._send_status(is_reply_wanted=True)
                    self._is_reply_due = True
                size, data = connection.get_copy_data(0)
        except self._psycopg.Error as error:
            raise self._unavailable(str(error)) from error
        if size < 0:
            raise self._unavailable("the server ended the stream")
        message = bytes(data)
        if message[0] == _WAL:
            _, _, end, _ = _XLOG_DATA_HEADER.unpack_from(message)
            return message[_XLOG_DATA_HEADER.size :], Lsn(end)
        _, end, _, is_reply_wanted = _KEEPALIVE.unpack(message)
        self._is_reply_due = False
        if is_reply_wanted:
            self._send_status(is_reply_wanted=False)
        return None, Lsn(end)

    def confirm(self, lsn: Lsn) -> None:
        """Tell the server that everything up to an LSN is stored elsewhere."""
        self._flushed = Lsn(max(self._flushed, lsn))
        try:
            self._send_status(is_reply_wanted=False)
        except self._psycopg.Error as error:
            raise self._unavailable(str(error)) from error

    def close(self) -> None:
        self._connection.finish()

    def _connect(self, uri: str) -> Any:
        pq = self._psycopg.pq
        given = {
            each.keyword: each.val
            for each in pq.Conninfo.parse(uri.encode())
            if each.val is not None
        }
        settings = {**SESSION_SETTINGS, **_WALSENDER_SETTINGS}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items()).encode()
        given[b"options"] = b" ".join(filter(None, (given.get(b"options"), options)))
        given |= {b"replication": b"database", b"client_encoding": b"UTF8"}
        given.setdefault(b"keepalives_idle", b"30")
        given.setdefault(b"application_name", b"headwater")
        text = b" ".join(name + b"=" + _quoted(value) for name, value in given.items())
        connection = pq.PGconn.connect(text)
        if connection.status != pq.ConnStatus.OK:
            message = connection.error_message.decode(errors="replace").strip()
            connection.finish()
            raise DatabaseUnavailable(message.splitlines()[0])
        return connection

    def _start(self, publication: str, start: Lsn) -> None:
        pq = self._psycopg.pq
        names = literal(quoted_name(publication)).removeprefix("E")
        result = self._connection.exec_(
            f"START_REPLICATION SLOT {quoted_name(self._slot)} LOGICAL {format_lsn(start)} "
            f"(proto_version '1', publication_names {names})".encode()
        )
        if result.status != pq.ExecStatus.COPY_BOTH:
            raw = result.error_field(pq.DiagnosticField.SQLSTATE)
            message = result.error_message.decode(errors="replace").strip().splitlines()[0]
            reason = message.rpartition("ERROR:")[2].strip() or message
            raise refusal(self._slot, None if raw is None else raw.decode(), reason)

    def _send_status(self, *, is_reply_wanted: bool) -> None:
        now_us = time.time_ns() // 1000 - POSTGRESQL_EPOCH_US
        flushed = self._flushed
        self._connection.put_copy_data(
            _STATUS_UPDATE.pack(b"r", flushed, flushed, flushed, now_us, is_reply_wanted)
        )
        self._connection.flush()

    def _unavailable(self, message: str) -> DatabaseUnavailable:
        # libpq explains in further lines what the first one says.
        first = message.strip().partition("\n")[0]
        return DatabaseUnavailable(f"the replication connection is lost: {first}")


_WAL: Final = ord("w")


def _quoted(value: bytes) -> bytes:
    """A value of a connection string."""
    return b"'" + value.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"
