"""Load the Protobuf runtime when it is needed.

A registry with Avro and JSON schemas only runs without it.
"""

from typing import Any

from headwater.schemas.protobuf.tokens import invalid_protobuf


def descriptor_messages() -> Any:
    """The module with `FileDescriptorProto`; `InvalidSchema` if it is not installed."""
    try:
        from google.protobuf import descriptor_pb2
    except ImportError as error:
        raise invalid_protobuf(
            "protobuf is not installed: pip install 'headwater[protobuf]'"
        ) from error
    return descriptor_pb2
