"""Decode messages of PostgreSQL's logical replication protocol, version 1.

The plugin pgoutput writes one message per change, in network byte order, between the Begin and the
Commit of its transaction. Names are those of "Logical Replication Message Formats" in PostgreSQL's
documentation. Column values are in text format.

    Begin     'B'  final LSN int64, commit time int64, xid int32
    Message   'M'  flags int8, LSN int64, prefix cstring, length int32, content
    Commit    'C'  flags int8, commit LSN int64, end LSN int64, commit time int64
    Origin    'O'  commit LSN at the origin int64, name cstring
    Relation  'R'  oid int32, namespace cstring, name cstring, replica identity int8,
                   int16 columns of (flags int8, name cstring, type oid int32, type modifier int32)
    Type      'Y'  oid int32, namespace cstring, name cstring
    Insert    'I'  relation oid int32, 'N' TupleData
    Update    'U'  relation oid int32, optional 'K' or 'O' TupleData, 'N' TupleData
    Delete    'D'  relation oid int32, 'K' or 'O' TupleData
    Truncate  'T'  int32 relations, options int8, oids int32
    TupleData      int16 columns of: 'n' null | 'u' unchanged TOAST | 't' length int32, text

Note: a TOASTed value that an update leaves unchanged is not in the message, only a mark for it.
"""

import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType

from headwater.common.exceptions import HeadwaterError

Lsn = NewType("Lsn", int)
"""A position in PostgreSQL's write-ahead log, in bytes."""

# PostgreSQL counts microseconds from 2000-01-01 UTC.
POSTGRESQL_EPOCH_US: Final = 946_684_800_000_000

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_UINT64: Final = struct.Struct(">Q")

_KEY_COLUMN: Final = 1
_CASCADE: Final = 1
_RESTART_IDENTITY: Final = 2
_TRANSACTIONAL: Final = 1


class MalformedPgoutput(HeadwaterError):
    """A message does not have the form of pgoutput, version 1."""


class UnchangedToast(Enum):
    """The mark for an unchanged TOASTed value, which an update did not send."""

    UNCHANGED = "u"


UNCHANGED: Final = UnchangedToast.UNCHANGED

ColumnText = str | None | UnchangedToast
TupleData = tuple[ColumnText, ...]


class ReplicaIdentity(Enum):
    """Which columns of the old row updates and deletes have."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    final_lsn: Lsn
    commit_time_us: int
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    commit_lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalMessage:
    """A message of `pg_logical_emit_message`; PostgreSQL's name for it is Message."""

    is_transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationColumn:
    name: str
    type_oid: int
    type_modifier: int = -1
    is_key: bool = False
    # SQL name with modifiers, such as numeric(10,2); pgoutput does not have it.
    type_name: str = field(default="text", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    oid: int
    namespace: str
    name: str
    replica_identity: ReplicaIdentity
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """A type that is not built in; PostgreSQL's name for the message is Type."""

    oid: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    relation_oid: int
    new: TupleData


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`key` is sent if the replica identity changed, `old` with REPLICA IDENTITY FULL."""

    relation_oid: int
    key: TupleData | None = None
    old: TupleData | None = None
    new: TupleData


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """One of `key` and `old` is set."""

    relation_oid: int
    key: TupleData | None = None
    old: TupleData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    relation_oids: tuple[int, ...]
    is_cascade: bool = False
    is_restart_identity: bool = False


PgoutputMessage = (
    Begin
    | Commit
    | Origin
    | LogicalMessage
    | Relation
    | DataType
    | Insert
    | Update
    | Delete
    | Truncate
)


def decode_message(data: bytes) -> PgoutputMessage:
    """Decode one message; it must be complete and have no bytes after its end."""
    message_bytes = _MessageBytes(data)
    try:
        message = _decode(message_bytes)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise MalformedPgoutput(f"malformed pgoutput message {data[:16]!r}: {error}") from error
    if message_bytes.position != len(data):
        raise MalformedPgoutput(f"bytes after the end of the pgoutput message {data[:16]!r}")
    return message


def parse_lsn(text: str) -> Lsn:
    """Parse PostgreSQL's text for an LSN, such as `16/B374D848`."""
    high, separator, low = text.partition("/")
    try:
        if not separator:
            raise ValueError(text)
        return Lsn(int(high, 16) << 32 | int(low, 16))
    except ValueError as error:
        raise MalformedPgoutput(f"not an LSN: {text!r}") from error


def format_lsn(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class _MessageBytes:
    """The bytes of one message, and the position of the next field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self.position)
        self.position += form.size
        return int(value)

    def take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"a length of {length} exceeds the message")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def character(self) -> str:
        return self.take(1).decode("ascii")

    def flags(self) -> int:
        return self.take(1)[0]

    def cstring(self) -> str:
        end = self._data.index(b"\0", self.position)
        text = self._data[self.position : end].decode()
        self.position = end + 1
        return text

    def lsn(self) -> Lsn:
        return Lsn(self.number(_UINT64))

    def oid(self) -> int:
        return self.number(_UINT32)

    def time_us(self) -> int:
        """Microseconds since the Unix epoch."""
        return self.number(_INT64) + POSTGRESQL_EPOCH_US

    def count(self, form: struct.Struct) -> int:
        count = self.number(form)
        if count < 0:
            raise ValueError(f"a count of {count}")
        return count

    def tuple_data(self) -> TupleData:
        return tuple(self._column() for _ in range(self.count(_INT16)))

    def _column(self) -> ColumnText:
        match self.character():
            case "n":
                return None
            case "u":
                return UNCHANGED
            case "t":
                return self.take(self.number(_INT32)).decode()
            case other:
                raise ValueError(f"a column of kind {other!r}")


def _decode(data: _MessageBytes) -> PgoutputMessage:
    match data.character():
        case "B":
            return Begin(final_lsn=data.lsn(), commit_time_us=data.time_us(), xid=data.oid())
        case "C":
            data.flags()
            return Commit(commit_lsn=data.lsn(), end_lsn=data.lsn(), commit_time_us=data.time_us())
        case "O":
            return Origin(data.lsn(), data.cstring())
        case "M":
            return LogicalMessage(
                is_transactional=bool(data.flags() & _TRANSACTIONAL),
                lsn=data.lsn(),
                prefix=data.cstring(),
                content=data.take(data.number(_INT32)),
            )
        case "R":
            return _relation(data)
        case "Y":
            return DataType(oid=data.oid(), namespace=data.cstring(), name=data.cstring())
        case "I":
            oid = data.oid()
            _expect(data, "N")
            return Insert(oid, data.tuple_data())
        case "U":
            return _update(data)
        case "D":
            return _delete(data)
        case "T":
            count = data.count(_INT32)
            options = data.flags()
            return Truncate(
                relation_oids=tuple(data.oid() for _ in range(count)),
                is_cascade=bool(options & _CASCADE),
                is_restart_identity=bool(options & _RESTART_IDENTITY),
            )
        case other:
            raise ValueError(f"unknown message type {other!r}")


def _relation(data: _MessageBytes) -> Relation:
    return Relation(
        oid=data.oid(),
        namespace=data.cstring(),
        name=data.cstring(),
        replica_identity=ReplicaIdentity(data.character()),
        columns=tuple(_relation_column(data) for _ in range(data.count(_INT16))),
    )


def _relation_column(data: _MessageBytes) -> RelationColumn:
    return RelationColumn(
        is_key=bool(data.flags() & _KEY_COLUMN),
        name=data.cstring(),
        type_oid=data.oid(),
        type_modifier=data.number(_INT32),
    )


def _update(data: _MessageBytes) -> Update:
    oid = data.oid()
    match data.character():
        case "K":
            key = data.tuple_data()
            _expect(data, "N")
            return Update(relation_oid=oid, key=key, new=data.tuple_data())
        case "O":
            old = data.tuple_data()
            _expect(data, "N")
            return Update(relation_oid=oid, old=old, new=data.tuple_data())
        case "N":
            return Update(relation_oid=oid, new=data.tuple_data())
        case other:
            raise ValueError(f"a tuple of kind {other!r} in an update")


def _delete(data: _MessageBytes) -> Delete:
    oid = data.oid()
    match data.character():
        case "K":
            return Delete(relation_oid=oid, key=data.tuple_data())
        case "O":
            return Delete(relation_oid=oid, old=data.tuple_data())
        case other:
            raise ValueError(f"a tuple of kind {other!r} in a delete")


def _expect(data: _MessageBytes, kind: str) -> None:
    found = data.character()
    if found != kind:
        raise ValueError(f"a tuple of kind {found!r} instead of {kind!r}")
