"""Skip records that were processed before, by a durable set of identities.

    seen = Deduplicator("seen.db", identity="id", window=1_000_000)
    for record in seen.new(consumer.poll(1.0)):
        brew(record)
        seen.handled(record)
    seen.flush()
    consumer.commit()

A record's identity is a header set by its sender, or the result of a function. The last `window`
identities are stored in a file, so that they survive a restart.

Note: the file belongs to one process. If a partition moves to another process, that one does not
know the identities, and a duplicate across the move is processed twice. Thread-safe; but two
threads that ask about the same record at the same time are both told that it is new.
`ParallelConsumer` prevents that.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headwater.client.errors import IllegalState, InvalidArgument
from headwater.common.exceptions import CorruptFile, InvalidSetting, StorageError
from headwater.records.consumer_record import ConsumerRecord

Identity = Callable[[ConsumerRecord], bytes | str | None]
"""Returns equal values for duplicates; None for a record that is never a duplicate."""

_DIGEST_BYTES: Final = 16
_UNFLUSHED_MAX: Final = 10_000
# Wait for a deduplicator of the same file that is being closed.
_LOCKED_S: Final = 1.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS handled (
    number INTEGER PRIMARY KEY,
    identity BLOB NOT NULL UNIQUE
)
"""


class Deduplicator:
    """A bounded, durable set of record identities."""

    def __init__(
        self, path: Path | str, *, identity: str | Identity, window: int = 1_000_000
    ) -> None:
        """`identity` is the name of a header, or a function.

        Raises `CorruptFile` for a foreign file, `StorageError` if it cannot be opened.
        """
        if window < 1:
            raise InvalidSetting("window must be at least 1")
        if not isinstance(identity, str) and not callable(identity):
            raise InvalidSetting(f"identity must be a header name or a function, not {identity!r}")
        self._identity = _header(identity) if isinstance(identity, str) else identity
        self._window = window
        self._unflushed = 0
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        try:
            database = sqlite3.connect(
                path, timeout=_LOCKED_S, isolation_level=None, check_same_thread=False
            )
            # Two processes with one file would overwrite each other's identities.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            # The log is synced by `flush`, not for each record.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(_SCHEMA)
            database.execute("BEGIN")
        except sqlite3.OperationalError as error:
            folder = Path(path).absolute().parent
            why = str(error) if folder.is_dir() else f"directory {folder} does not exist"
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                why = "another process has it open"
            raise StorageError(f"cannot open {path}: {why}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptFile(f"{path} is not a deduplicator file: {error}") from error
        self._database = database

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of stored identities."""
        with self._lock:
            found = self._open().execute("SELECT min(number), max(number) FROM handled")
            first, last = found.fetchone()
        return 0 if first is None else int(last - first + 1)

    def is_new(self, record: ConsumerRecord) -> bool:
        """Whether the record is not among the processed ones."""
        identity = self.identity_of(record)
        with self._lock:
            return identity is None or self._is_new(identity)

    def new(self, records: Iterable[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Filter out processed records, lazily."""
        return (record for record in records if self.is_new(record))

    def handled(self, record: ConsumerRecord) -> None:
        """Add the record. It is durable after the next (or an automatic) `flush`."""
        identity = self.identity_of(record)
        if identity is not None:
            with self._lock:
                self._remember(identity)

    def _remember(self, identity: bytes) -> None:
        if not self._is_new(identity):
            # Numbers must have no gaps, or the window would shrink.
            return
        database = self._open()
        added = database.execute("INSERT INTO handled (identity) VALUES (?)", (identity,))
        number = added.lastrowid
        assert number is not None
        database.execute("DELETE FROM handled WHERE number <= ?", (number - self._window,))
        self._unflushed += 1
        if self._unflushed >= _UNFLUSHED_MAX:
            self.flush()

    def flush(self) -> None:
        """Make the identities durable; call it before each commit."""
        with self._lock:
            database = self._open()
            database.execute("COMMIT")
            database.execute("BEGIN")
            self._unflushed = 0

    def close(self) -> None:
        """Flush and close the file. Idempotent."""
        with self._lock:
            if self._database is not None:
                self._database.execute("COMMIT")
                self._database.close()
                self._database = None

    def _is_new(self, identity: bytes) -> bool:
        found = self._open().execute("SELECT 1 FROM handled WHERE identity = ?", (identity,))
        return found.fetchone() is None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            raise IllegalState("the deduplicator is closed")
        return self._database

    def identity_of(self, record: ConsumerRecord) -> bytes | None:
        """The stored identity of a record; None for one that is never a duplicate."""
        identity = self._identity(record)
        if identity is None:
            return None
        raw = identity.encode() if isinstance(identity, str) else identity
        if not isinstance(raw, bytes | bytearray | memoryview):
            raise InvalidArgument(f"an identity must be bytes or str, not {identity!r}")
        # Hash long identities to bound the file; collisions are negligible at this length.
        return blake2b(raw, digest_size=_DIGEST_BYTES).digest() if len(raw) > _DIGEST_BYTES else raw


def _header(name: str) -> Identity:
    """The value of the last header with this name."""

    def identity(record: ConsumerRecord) -> bytes | None:
        for key, value in reversed(record.headers):
            if key == name:
                return value
        return None

    return identity
