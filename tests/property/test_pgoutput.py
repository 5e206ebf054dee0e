"""Decode generated messages of the logical replication protocol."""

import struct
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connect.postgresql_cdc.column_types import (
    DATE,
    TIMESTAMP,
    TIMESTAMPTZ,
    civil_from_days,
    days_from_civil,
    iso_timestamp,
    typed_value,
)
from headwater.connect.postgresql_cdc.pgoutput import (
    POSTGRESQL_EPOCH_US,
    UNCHANGED,
    Begin,
    Commit,
    DataType,
    Delete,
    Insert,
    LogicalMessage,
    Lsn,
    MalformedPgoutput,
    Origin,
    PgoutputMessage,
    Relation,
    RelationColumn,
    ReplicaIdentity,
    Truncate,
    TupleData,
    Update,
    decode_message,
    format_lsn,
    parse_lsn,
)

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
OIDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**64 - 1).map(Lsn)
TIMES = st.integers(-(2**62), 2**62)
TUPLES = st.lists(st.none() | st.just(UNCHANGED) | NAMES, max_size=6).map(tuple)
COLUMNS = st.builds(
    RelationColumn,
    name=NAMES,
    type_oid=OIDS,
    type_modifier=st.integers(-1, 2**31 - 1),
    is_key=st.booleans(),
)
MESSAGES: st.SearchStrategy[PgoutputMessage] = st.one_of(
    st.builds(Begin, final_lsn=LSNS, commit_time_us=TIMES, xid=OIDS),
    st.builds(Commit, commit_lsn=LSNS, end_lsn=LSNS, commit_time_us=TIMES),
    st.builds(Origin, LSNS, NAMES),
    st.builds(
        LogicalMessage,
        is_transactional=st.booleans(),
        lsn=LSNS,
        prefix=NAMES,
        content=st.binary(max_size=30),
    ),
    st.builds(
        Relation,
        oid=OIDS,
        namespace=NAMES,
        name=NAMES,
        replica_identity=st.sampled_from(ReplicaIdentity),
        columns=st.lists(COLUMNS, max_size=5).map(tuple),
    ),
    st.builds(DataType, oid=OIDS, namespace=NAMES, name=NAMES),
    st.builds(Insert, OIDS, TUPLES),
    st.builds(Update, relation_oid=OIDS, new=TUPLES),
    st.builds(Update, relation_oid=OIDS, key=TUPLES, new=TUPLES),
    st.builds(Update, relation_oid=OIDS, old=TUPLES, new=TUPLES),
    st.builds(Delete, relation_oid=OIDS, key=TUPLES),
    st.builds(Delete, relation_oid=OIDS, old=TUPLES),
    st.builds(
        Truncate,
        relation_oids=st.lists(OIDS, max_size=4).map(tuple),
        is_cascade=st.booleans(),
        is_restart_identity=st.booleans(),
    ),
)


def cstring(text: str) -> bytes:
    return text.encode() + b"\0"


def encoded_tuple(row: TupleData) -> bytes:
    data = struct.pack(">h", len(row))
    for value in row:
        if value is None:
            data += b"n"
        elif isinstance(value, str):
            data += b"t" + struct.pack(">i", len(value.encode())) + value.encode()
        else:
            data += b"u"
    return data


def encoded(message: PgoutputMessage) -> bytes:
    """The message as PostgreSQL's documentation describes it."""
    match message:
        case Begin():
            time = message.commit_time_us - POSTGRESQL_EPOCH_US
            return b"B" + struct.pack(">QqI", message.final_lsn, time, message.xid)
        case Commit():
            time = message.commit_time_us - POSTGRESQL_EPOCH_US
            return b"C\0" + struct.pack(">QQq", message.commit_lsn, message.end_lsn, time)
        case Origin():
            return b"O" + struct.pack(">Q", message.commit_lsn) + cstring(message.name)
        case LogicalMessage():
            head = struct.pack(">BQ", message.is_transactional, message.lsn)
            content = struct.pack(">i", len(message.content)) + message.content
            return b"M" + head + cstring(message.prefix) + content
        case Relation():
            data = b"R" + struct.pack(">I", message.oid)
            data += cstring(message.namespace) + cstring(message.name)
            data += message.replica_identity.value.encode()
            data += struct.pack(">h", len(message.columns))
            for each in message.columns:
                data += struct.pack(">B", each.is_key) + cstring(each.name)
                data += struct.pack(">Ii", each.type_oid, each.type_modifier)
            return data
        case DataType():
            names = cstring(message.namespace) + cstring(message.name)
            return b"Y" + struct.pack(">I", message.oid) + names
        case Insert():
            return (
                b"I" + struct.pack(">I", message.relation_oid) + b"N" + encoded_tuple(message.new)
            )
        case Update() | Delete():
            data = b"U" if isinstance(message, Update) else b"D"
            data += struct.pack(">I", message.relation_oid)
            if message.key is not None:
                data += b"K" + encoded_tuple(message.key)
            if message.old is not None:
                data += b"O" + encoded_tuple(message.old)
            return data + b"N" + encoded_tuple(message.new) if isinstance(message, Update) else data
        case Truncate():
            options = message.is_cascade + 2 * message.is_restart_identity
            oids = b"".join(struct.pack(">I", oid) for oid in message.relation_oids)
            return b"T" + struct.pack(">iB", len(message.relation_oids), options) + oids


@given(MESSAGES)
def test_every_message_decodes_to_what_was_encoded(message: PgoutputMessage) -> None:
    assert decode_message(encoded(message)) == message


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_or_too_long_is_malformed(
    message: PgoutputMessage, data: st.DataObject
) -> None:
    whole = encoded(message)
    length = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:length], whole + b"\0"):
        with pytest.raises(MalformedPgoutput):
            decode_message(wrong)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_but_malformed(data: bytes) -> None:
    with suppress(MalformedPgoutput):
        decode_message(data)


@given(LSNS)
def test_lsn_text_round_trips(lsn: Lsn) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@given(st.dates())
def test_dates_count_as_python_counts_them(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert days_from_civil(day.year, day.month, day.day) == days
    assert civil_from_days(days) == (day.year, day.month, day.day)
    assert typed_value(DATE, day.isoformat()) == days


@given(st.integers(-5_000_000, 5_000_000))
def test_civil_dates_round_trip_beyond_the_years_of_python(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


@given(st.datetimes(timezones=st.just(UTC)))
def test_timestamps_count_as_python_counts_them(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    text = moment.replace(tzinfo=None).isoformat(" ")
    assert typed_value(TIMESTAMP, text) == micros
    assert typed_value(TIMESTAMPTZ, f"{text}+00") == micros
    assert typed_value(TIMESTAMPTZ, f"{text}-01:30") == micros + 5_400_000_000
    assert datetime.fromisoformat(iso_timestamp(micros)) == moment
