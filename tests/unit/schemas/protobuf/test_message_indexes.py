"""Message indexes in Confluent's wire format."""

import pytest

from headwater.schemas.protobuf.message_indexes import (
    decode_indexes,
    encode_indexes,
    indexes_of,
    name_at,
)
from headwater.schemas.protobuf.parser import parse

FILE = parse("package p; message A {} message B { message C {} message D { message E {} } }")


@pytest.mark.parametrize(
    ("indexes", "raw"),
    [
        ((0,), "00"),
        ((1,), "0202"),
        ((0, 0), "040000"),
        ((1, 2, 3), "06020406"),
        ((100,), "02c801"),
    ],
)
def test_indexes_are_zigzag_varints_after_their_count(indexes: tuple[int, ...], raw: str) -> None:
    encoded = bytes.fromhex(raw)
    assert encode_indexes(indexes) == encoded
    assert decode_indexes(b"12345" + encoded + b"rest", 5) == (indexes, 5 + len(encoded))


@pytest.mark.parametrize("raw", ["", "02", "80", "ffffffffffff", "01", "fe01", "0280"])
def test_damaged_indexes_raise_value_error(raw: str) -> None:
    with pytest.raises(ValueError, match="index"):
        decode_indexes(bytes.fromhex(raw), 0)


@pytest.mark.parametrize(
    ("name", "indexes"),
    [("p.A", (0,)), ("p.B", (1,)), ("p.B.C", (1, 0)), ("p.B.D.E", (1, 1, 0))],
)
def test_indexes_are_positions_in_the_file(name: str, indexes: tuple[int, ...]) -> None:
    assert indexes_of(FILE, name) == indexes
    assert name_at(FILE, indexes) == name


def test_unknown_messages_have_no_indexes() -> None:
    assert indexes_of(FILE, "p.C") is None
    assert indexes_of(FILE, "q.A") is None
    assert name_at(FILE, (1, 7)) is None
    assert name_at(FILE, (-1,)) is None
