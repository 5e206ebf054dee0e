"""Make classes of messages at run time, with the Protobuf runtime.

Each schema has a pool of its own: versions of a schema define the same names differently.
"""

from typing import Any

from headwater.schemas.protobuf.descriptors import file_descriptors
from headwater.schemas.protobuf.message_indexes import name_at
from headwater.schemas.protobuf.resolution import ProtobufSchema, joined
from headwater.schemas.protobuf.tokens import invalid_protobuf

_MAIN_NAME = "headwater/schema.proto"


class MessageClasses:
    """The classes of a schema's messages."""

    def __init__(self, schema: ProtobufSchema) -> None:
        """Raises `InvalidSchema` if the runtime does not accept the schema."""
        from google.protobuf import descriptor_pool

        self.schema = schema
        self._pool = descriptor_pool.DescriptorPool()
        self._by_name: dict[str, Any] = {}
        try:
            for each in file_descriptors(schema, _MAIN_NAME):
                self._pool.AddSerializedFile(each.SerializeToString())
        except TypeError as error:
            raise invalid_protobuf(str(error)) from error

    def named(self, full_name: str) -> Any:
        """The class of a message. Raises `InvalidSchema` if there is none."""
        from google.protobuf import message_factory

        if full_name not in self._by_name:
            try:
                found = self._pool.FindMessageTypeByName(full_name)
            except KeyError:
                raise invalid_protobuf(f"the schema has no message {full_name}") from None
            self._by_name[full_name] = message_factory.GetMessageClass(found)
        return self._by_name[full_name]

    def at(self, indexes: tuple[int, ...]) -> Any:
        """The class of the message at these indexes."""
        name = name_at(self.schema.file, indexes)
        if name is None:
            raise invalid_protobuf(f"the schema has no message at {list(indexes)}")
        return self.named(name)


def first_message(schema: ProtobufSchema) -> str:
    """The full name of the first message. Raises `InvalidSchema` if there is none."""
    if not schema.file.messages:
        raise invalid_protobuf("the schema has no message")
    return joined(schema.file.package, schema.file.messages[0].name)
