"""Generate malformed and unusual frames from a seed.

Five kinds: random bytes; valid headers followed by random bytes; valid Produce requests with
corrupt batches; well-formed requests with random content; and such requests with some bytes
changed, removed or inserted.
"""

import random
import struct
from dataclasses import dataclass
from typing import cast

from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import request_class, write
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.protocol.older_versions import Message
from headwater.protocol.schema import ProtocolField, wire_fields
from headwater.protocol.send_parts import Part
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, LENGTH_END, Codec
from headwater.records.checksum import write_crc
from headwater.records.record import Record

PRODUCED_TOPICS = ("fuzz-a", "fuzz-b", "fuzz.c")
"""Topics that are created before and accept the produced records."""

_TOPICS = (*PRODUCED_TOPICS, "", ".", "no such", "__consumer_offsets", "x" * 300)
# Values for fields of these names, so that requests pass the first checks. The first group is real
# and has members that come and go; a few member ids are chosen by members themselves (KIP-848), so
# that later requests find them again.
_GROUPS = ("fuzz-group", "fuzz-group", "fuzz-group", "other-group", "", "g" * 300)
_MEMBERS = ("", "", "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBA", "no such member")
_WORDS: dict[str, tuple[str, ...]] = {
    "group_id": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "group_ids": _GROUPS,
    "coordinator_keys": _GROUPS,
    "key": _GROUPS,
    "member_id": _MEMBERS,
    "leader": _MEMBERS,
    "group_instance_id": ("static-1", "static-2", ""),
    "instance_id": ("static-1", "static-2", ""),
    "protocol_type": ("consumer", "consumer", "connect", ""),
    "protocol_name": ("range", "range", "roundrobin"),
    "server_assignor": ("uniform", "range", "no such"),
    "subscribed_topic_regex": ("fuzz.*", "(a+)+$", "[", "", "(?i)FUZZ-[ab]", "x{1000}{1000}"),
    "subscribed_topic_names": _TOPICS,
}
_NUMBERS: dict[str, tuple[int, ...]] = {
    "max_wait_ms": (-1, 0, 1, 10),
    "timeout_ms": (-1, 0, 1, 10),
    "num_partitions": (-1, 0, 1, 3),
    "count": (-1, 0, 1, 3),
    "session_timeout_ms": (6_000, 6_000, 45_000, 1, -1),
    "rebalance_timeout_ms": (1, 50, 1_000, 60_000, -1),
    "generation_id": (1, 2, 3, 0, -1),
    "generation_id_or_member_epoch": (1, 2, 3, 0, -1),
    "member_epoch": (0, 0, 1, 2, 3, -1, -2),
}
# A consumer's subscription: version 1, one topic, no user data, no partitions.
_SUBSCRIPTION = b"\0\1\0\0\0\1\0\6fuzz-a\xff\xff\xff\xff\0\0\0\0"
_EDGES = (0, 1, -1, -2, -3, 2, 100, 2**31 - 1, -(2**31))
_LONGEST_LIST = 4
_LENGTH_START = LENGTH_END - 4
_NAMED_PRODUCE = 12


@dataclass(slots=True)
class FrameMaker:
    """Generates frames for the APIs of a broker; the same ones for the same seed."""

    rng: random.Random
    served: tuple[ApiKey, ...]

    def frame(self) -> bytes:
        """Return a frame with its size field, which may be wrong."""
        kind = self.rng.random()
        if kind < 0.05:
            body = self.rng.randbytes(self.rng.randrange(200))
        elif kind < 0.15:
            body = self._header_and_noise()
        elif kind < 0.3:
            body = self._produce()
        else:
            body = self._request()
            if kind < 0.75:
                body = self._mutated(body)
        return struct.pack(">i", self._size(len(body))) + body

    def _size(self, real: int) -> int:
        lie = self.rng.random()
        if lie < 0.005:
            return self.rng.choice((-1, -(2**31), 2**31 - 1, 104_857_601))
        if lie < 0.01:
            return max(0, real + self.rng.randrange(-8, 8))
        return real

    def _header_and_noise(self) -> bytes:
        key = self.rng.choice((*self.served, *APIS, -1, 999))
        version = self.rng.choice((0, 1, 2, 3, 5, 9, 12, 13, 17, -1, 99))
        noise = self.rng.randbytes(self.rng.randrange(100))
        return struct.pack(">hhih", key, version, self.rng.randrange(1000), 0) + noise

    def _produce(self) -> bytes:
        """Return a valid request for an existing topic, with a valid or nearly valid batch."""
        data = PartitionProduceData(records=memoryview(self._batch()))
        topic = TopicProduceData(name=self.rng.choice(PRODUCED_TOPICS), partition_data=(data,))
        request = ProduceRequest(
            acks=self.rng.choice((1, -1)), timeout_ms=1_000, topic_data=(topic,)
        )
        api = APIS[ApiKey.PRODUCE]
        body = write(request, _NAMED_PRODUCE)
        return _joined(request_frame(api, _NAMED_PRODUCE, 1, "fuzz", body))

    def _request(self) -> bytes:
        while True:
            api = APIS[self.rng.choice(self.served)]
            version = self.rng.randint(api.oldest, api.newest_served(unstable=False))
            message = self._shape(request_class(api.key), version)
            try:
                body = write(cast("Message", message), version)
            except UnsupportedInVersion:
                # The random values cannot be encoded in that version.
                continue
            return _joined(request_frame(api, version, self.rng.randrange(1000), "fuzz", body))

    def _shape(self, cls: type, version: int) -> object:
        values = {
            field.name: self._value(field, version)
            for field in wire_fields(cls)
            if field.travels_in(version) and self.rng.random() < 0.9
        }
        return cls(**values)

    def _value(self, field: ProtocolField, version: int) -> object:
        if field.is_nullable_in(version) and self.rng.random() < 0.1:
            return None
        if field.repeated:
            count = self.rng.randrange(_LONGEST_LIST)
            return tuple(self._one(field, version) for _ in range(count))
        return self._one(field, version)

    def _one(self, field: ProtocolField, version: int) -> object:
        rng = self.rng
        match field.kind:
            case "bool":
                # Destructive changes use validate_only.
                return field.name == "validate_only" or rng.random() < 0.5
            case "int8" | "int16" | "int32" | "int64":
                return self._integer(field)
            case "float64":
                return rng.random()
            case "string":
                return rng.choice(_WORDS.get(field.name, (*_TOPICS, "range")))
            case "uuid":
                return field.default
            case "bytes":
                is_noise = rng.random() < 0.5
                return rng.randbytes(rng.randrange(20)) if is_noise else _SUBSCRIPTION
            case "records":
                return memoryview(self._batch())
            case "error_code":
                return field.default
            case kind:
                assert isinstance(kind, type)
                return self._shape(kind, version)

    def _integer(self, field: ProtocolField) -> int:
        bits = int(str(field.kind).removeprefix("int"))
        likely = _NUMBERS.get(field.name)
        if likely is not None:
            return self.rng.choice(likely)
        chosen = self.rng.choice(_EDGES) if self.rng.random() < 0.7 else self.rng.getrandbits(bits)
        half = 1 << (bits - 1)
        return (chosen + half) % (2 * half) - half

    def _batch(self) -> bytes:
        count = self.rng.randrange(1, 5)
        records = [
            Record(key=b"k", value=self.rng.randbytes(10), timestamp=1_700_000_000_000)
            for _ in range(count)
        ]
        batch = build_batch(records, codec=self.rng.choice(list(Codec)))
        return self._mutated_batch(batch) if self.rng.random() < 0.5 else batch

    def _mutated_batch(self, batch: bytes) -> bytes:
        """Return a corrupt batch, usually with a valid CRC, so that it gets past the CRC check."""
        changed = bytearray(self._mutated(batch))
        if self.rng.random() < 0.8 and len(changed) > HEADER_BYTES:
            length = len(changed) - LENGTH_END
            changed[_LENGTH_START:LENGTH_END] = struct.pack(">i", length)
            write_crc(changed, 0, len(changed))
        return bytes(changed)

    def _mutated(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for _ in range(self.rng.randrange(1, 5)):
            # The first bytes hold the API key, and are unchanged so that most requests are
            # dispatched.
            place = self.rng.randrange(min(8, len(changed)), len(changed) + 1)
            match self.rng.randrange(4):
                case 0:
                    del changed[place : place + self.rng.randrange(1, 8)]
                case 1:
                    changed[place:place] = self.rng.randbytes(self.rng.randrange(1, 8))
                case 2 if place < len(changed):
                    changed[place] ^= 1 << self.rng.randrange(8)
                case _:
                    changed[place : place + 4] = struct.pack(">i", self.rng.choice(_EDGES))
        return bytes(changed)


def _joined(parts: list[Part]) -> bytes:
    """Join the parts without the size field, which is added later."""
    whole = b"".join(
        bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview)
    )
    return whole[4:]
