"""Read schemas in the forms in which clients register them: text or descriptor."""

from collections.abc import Iterable

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.descriptor_reader import read_base64
from headwater.schemas.protobuf.parser import parse
from headwater.schemas.protobuf.resolution import ProtobufSchema, link
from headwater.schemas.protobuf.schema import ProtoFile
from headwater.schemas.protobuf.validation import validate


def read_file(text: str) -> ProtoFile:
    """Parse the text of a .proto file, or a FileDescriptorProto in base64."""
    try:
        return parse(text)
    except InvalidSchema:
        # As Confluent's registry: what is not text may be a descriptor.
        found = read_base64(text)
        if found is None:
            raise
        return found


def read_schema(text: str, referred: Iterable[tuple[str, str]] = ()) -> ProtobufSchema:
    """Parse a schema with the schemas that it imports, as names and texts.

    Raises `InvalidSchema` if it is not valid.
    """
    file = read_file(text)
    schema = link(file, {name: read_file(each) for name, each in referred})
    validate(schema)
    return schema
