"""Random Protobuf schemas: texts and descriptors say the same, and bad text only raises."""

import base64
import contextlib
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.canonical_form import canonical
from headwater.schemas.protobuf.compatibility import unreadable
from headwater.schemas.protobuf.descriptors import file_descriptors, serialized
from headwater.schemas.protobuf.normalized_form import normalized
from headwater.schemas.protobuf.parser import parse
from headwater.schemas.protobuf.resolution import ProtobufSchema, link, walk_messages
from headwater.schemas.protobuf.schema import ProtoFile
from headwater.schemas.protobuf.schema_reader import read_file, read_schema
from headwater.schemas.protobuf.validation import validate
from tests.property.protobuf_texts import any_text, proto_files


@given(any_text)
def test_arbitrary_text_raises_nothing_but_the_schema_error(text: str) -> None:
    try:
        found = read_schema(text)
    except InvalidSchema:
        return
    assert canonical(parse(canonical(found.file))) == canonical(found.file)


@given(st.binary(max_size=300))
def test_arbitrary_descriptor_raises_nothing_but_the_schema_error(raw: bytes) -> None:
    with contextlib.suppress(InvalidSchema):
        read_schema(base64.b64encode(raw).decode())


@given(proto_files(), st.data())
def test_damaged_text_raises_nothing_but_the_schema_error(file: ProtoFile, data: Any) -> None:
    text = canonical(file)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 10))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + cut :]
    try:
        found = read_schema(damaged)
    except InvalidSchema:
        return
    # What passes our checks, the runtime loads.
    classes(found)


@given(proto_files())
def test_text_parses_to_the_same_tree(file: ProtoFile) -> None:
    text = canonical(file)
    assert parse(text) == file
    schema = read_schema(text)
    again = normalized(schema)
    assert normalized(read_schema(again)) == again
    assert unreadable(reader=read_schema(again), writer=schema) == []
    assert unreadable(reader=schema, writer=read_schema(again)) == []


@given(proto_files())
def test_descriptor_has_the_same_meaning_as_the_text(file: ProtoFile) -> None:
    schema = link(file, {})
    validate(schema)
    from_descriptor = read_schema(serialized(schema))
    assert normalized(from_descriptor) == normalized(schema)
    assert unreadable(reader=from_descriptor, writer=schema) == []
    text = canonical(read_file(serialized(schema)))
    assert normalized(read_schema(text)) == normalized(schema)


def classes(schema: ProtobufSchema) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for each in file_descriptors(schema, "main.proto"):
        pool.AddSerializedFile(each.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name, _ in walk_messages(schema.file)
    }


@settings(max_examples=50)
@given(proto_files(), st.binary(max_size=40))
def test_runtime_reads_and_writes_with_the_descriptors(file: ProtoFile, raw: bytes) -> None:
    ours = classes(link(file, {}))
    same = classes(read_schema(normalized(link(file, {}))))
    for name, kind in ours.items():
        message = kind()
        try:
            message.ParseFromString(raw)
        except DecodeError:
            continue
        other = same[name]()
        other.ParseFromString(message.SerializeToString(deterministic=True))
        assert str(other) == str(message)
