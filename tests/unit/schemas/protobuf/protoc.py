"""Google's compiler, which judges our parser: its descriptor of a text, or its refusal."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet


def compiled(text: str, others: Mapping[str, str] | None = None) -> FileDescriptorProto | None:
    """The descriptor of a text, or None if protoc rejects it."""
    tools: Any = pytest.importorskip("grpc_tools.protoc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in {**(others or {}), "main.proto": text}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        result = folder / "descriptors"
        include = str(Path(str(tools.__file__)).parent / "_proto")
        status = tools.main(
            ["protoc", f"-I{name}", f"-I{include}", f"--descriptor_set_out={result}", "main.proto"]
        )
        if status:
            return None
        return FileDescriptorSet.FromString(result.read_bytes()).file[0]


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """protoc writes the JSON name of every field; a text has only the chosen ones."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    waiting: list[Any] = list(copy.message_type)
    fields = list(copy.extension)
    while waiting:
        message = waiting.pop()
        fields += [*message.field, *message.extension]
        waiting += message.nested_type
    for field in fields:
        field.ClearField("json_name")
    return copy
