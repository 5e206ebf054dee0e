"""fastavro reads what the compatibility check accepts."""

import io
import json
from contextlib import suppress
from typing import Any

import fastavro
from fastavro.utils import generate_many
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from headwater.schemas.avro.canonical_form import canonical, normalized
from headwater.schemas.avro.compatibility import unreadable
from headwater.schemas.avro.schema import parse
from tests.property.avro_reference import reads
from tests.property.avro_schemas import Schema, edited, schemas, unions_of_records


@settings(max_examples=300, deadline=None)
@given(schemas.flatmap(lambda schema: st.tuples(st.just(schema), edited(schema))))
def test_compatible_schemas_are_readable(pair: tuple[Schema, Schema]) -> None:
    writer, reader = pair
    parsed = [_parsed(each) for each in (reader, writer)]
    assume(all(each is not None for each in parsed))
    assume(not unreadable(reader=parsed[0].root, writer=parsed[1].root))
    event("the same" if reader == writer else "another one")
    written = fastavro.parse_schema(json.loads(json.dumps(writer)))
    wanted = fastavro.parse_schema(json.loads(json.dumps(reader)))
    for value in generate_many(written, 8):
        data = io.BytesIO()
        fastavro.schemaless_writer(data, written, value)
        data.seek(0)
        # Bytes may be read as a string by their schemas, but need not be valid UTF-8.
        with suppress(UnicodeDecodeError):
            fastavro.schemaless_reader(data, written, wanted)
            assert not data.read()


_pairs_of_unions = st.tuples(unions_of_records(), unions_of_records())
_edited_pairs = schemas.flatmap(lambda schema: st.tuples(st.just(schema), edited(schema)))


@settings(max_examples=1_000, deadline=None)
@given(_pairs_of_unions | _edited_pairs)
def test_result_equals_the_reference_implementation(pair: tuple[Schema, Schema]) -> None:
    reader, writer = (_parsed(each) for each in pair)
    assume(reader is not None and writer is not None)
    found = unreadable(reader=reader.root, writer=writer.root)
    expected = reads(reader.root, writer.root)
    event("readable" if expected else "unreadable")
    assert (not found) == expected, found


@settings(max_examples=200, deadline=None)
@given(schemas)
def test_canonical_texts_are_stable_and_equivalent(schema: Schema) -> None:
    parsed = _parsed(schema)
    assume(parsed is not None)
    for write in (canonical, normalized):
        text = write(parsed)
        again = parse(text)
        assert write(again) == text
        assert not unreadable(reader=again.root, writer=parsed.root)
        assert not unreadable(reader=parsed.root, writer=again.root)


def _parsed(schema: Schema) -> Any:
    """Return None if the random schema is invalid: a duplicate name or branch."""
    from headwater.schemas.errors import InvalidSchema

    try:
        return parse(json.dumps(schema))
    except InvalidSchema:
        return None
