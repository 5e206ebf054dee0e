"""Read a column of Protobuf records, each with the id of its schema, as one type.

    +------+----------------------+-----------------+---------------------
    | 0x00 | the schema's id, int | message indexes | the message
    +------+----------------------+-----------------+---------------------
      1 byte  4 bytes, big-endian

Records are parsed with the reader's schema: fields are found by number, whatever version wrote
them. The writer's schema is needed once, for the name of the message.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headwater.schemas.protobuf.message_indexes import decode_indexes, name_at
from headwater.schemas.protobuf.messages import MessageClasses
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.spark.formats.protobuf.message_columns import AnyArray, message_column

PREFIX_BYTES: Final = 5
MAGIC: Final = 0
_MESSAGES_MAX: Final = 1000

WriterOf = Callable[[int], ProtobufSchema | None]
"""The schema with an id; None if there is none."""


@dataclass(frozen=True, slots=True)
class ReadProtobuf:
    """Values, null where unreadable, and the reasons by row number."""

    values: AnyArray
    unreadable: dict[int, str]


class ProtobufReader:
    """Reads columns as a message of the reader's schema; caches writers' messages."""

    def __init__(self, reader: ProtobufSchema, message: str, writer_of: WriterOf) -> None:
        """Raises `InvalidSchema` or `UnsupportedSchema`."""
        self._class = MessageClasses(reader).named(message)
        self._column = message_column(self._class.DESCRIPTOR)
        self._message = message
        self._writer_of = writer_of
        self._reasons: OrderedDict[tuple[int, tuple[int, ...]], str | None] = OrderedDict()

    @property
    def kind(self) -> Any:
        """The Arrow type of the columns."""
        return self._column.kind

    def read(self, values: AnyArray) -> ReadProtobuf:
        """Of type binary, with nulls, which stay null."""
        unreadable: dict[int, str] = {}
        messages: list[Any] = []
        for row, raw in enumerate(values.to_pylist()):
            message = None
            if raw is not None:
                message = self._parsed(raw)
                if isinstance(message, str):
                    unreadable[row] = message
                    message = None
            messages.append(message)
        return ReadProtobuf(self._built(messages, unreadable), unreadable)

    def _built(self, messages: list[Any], unreadable: dict[int, str]) -> AnyArray:
        """The column, without messages whose values Spark's types cannot hold."""
        failures = _build_failures()
        try:
            return self._column.build(messages)
        except failures:
            pass
        for row, each in enumerate(messages):
            try:
                self._column.build([each])
            except failures as error:
                unreadable[row] = str(error).splitlines()[0]
                messages[row] = None
        return self._column.build(messages)

    def _parsed(self, raw: bytes) -> Any:
        """The message, or why it cannot be read."""
        from google.protobuf.message import DecodeError

        if len(raw) <= PREFIX_BYTES or raw[0] != MAGIC:
            return "it does not begin with 0 and the id of a schema"
        schema_id = int.from_bytes(raw[1:PREFIX_BYTES], "big")
        try:
            indexes, position = decode_indexes(raw, PREFIX_BYTES)
            reason = self._reason(schema_id, indexes)
            return reason or self._class.FromString(raw[position:])
        except (DecodeError, ValueError) as error:
            return f"{error} (schema {schema_id})"

    def _reason(self, schema_id: int, indexes: tuple[int, ...]) -> str | None:
        """Why records of a message cannot be read, or None if they can."""
        key = (schema_id, indexes)
        if key not in self._reasons:
            self._reasons[key] = self._found_reason(schema_id, indexes)
            if len(self._reasons) > _MESSAGES_MAX:
                self._reasons.popitem(last=False)
        return self._reasons[key]

    def _found_reason(self, schema_id: int, indexes: tuple[int, ...]) -> str | None:
        writer = self._writer_of(schema_id)
        if writer is None:
            return f"the registry has no schema {schema_id}"
        name = name_at(writer.file, indexes)
        if name == self._message:
            return None
        what = f"no message at {list(indexes)}" if name is None else f"a {name}"
        return f"it is {what} of schema {schema_id}, not a {self._message}"


def _build_failures() -> tuple[type[Exception], ...]:
    """Raised for times out of range, text that is not UTF-8, numbers not in JSON."""
    from google.protobuf import json_format

    return (OverflowError, ValueError, pa.ArrowInvalid, json_format.Error)
