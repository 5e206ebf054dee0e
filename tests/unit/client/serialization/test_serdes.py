"""Serializers and deserializers by name: Java's formats, without coercion."""

from typing import Any
from uuid import UUID

import pytest

from headwater.client.serialization.serdes import deserializer, serializer
from headwater.common.exceptions import InvalidSetting

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "java", "value", "raw"),
    [
        ("str", "String", "Grüße", "Grüße".encode()),
        ("int", "Long", -2, b"\xff" * 7 + b"\xfe"),
        ("int32", "Integer", 258, b"\0\0\1\2"),
        ("int16", "Short", -1, b"\xff\xff"),
        ("float", "Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("float32", "Float", 1.5, b"\x3f\xc0\0\0"),
        ("bool", "Boolean", True, b"\1"),
        ("uuid", "UUID", UUID(int=7), b"00000000-0000-0000-0000-000000000007"),
    ],
)
def test_a_name_and_the_java_class_use_the_same_format(
    name: str, java: str, value: object, raw: bytes
) -> None:
    for each in (name, f"{JAVA}{java}Serializer"):
        serialize = serializer(each, "value.serializer")
        assert serialize is not None
        assert serialize(value) == raw
    for each in (name, f"{JAVA}{java}Deserializer"):
        deserialize = deserializer(each, "value.deserializer")
        assert deserialize is not None
        assert deserialize(raw) == value


@pytest.mark.parametrize("java", ["ByteArray", "ByteBuffer", "Bytes"])
def test_java_byte_serializers_pass_bytes_through(java: str) -> None:
    assert serializer(f"{JAVA}{java}Serializer", "key.serializer") is None
    assert deserializer(f"{JAVA}{java}Deserializer", "key.deserializer") is None


@pytest.mark.parametrize(
    "given",
    [
        "string",
        f"{JAVA}StringDeserializer",
        f"{JAVA}ListSerializer",
        "io.confluent.kafka.serializers.KafkaAvroSerializer",
        7,
    ],
)
def test_an_unknown_serializer_is_rejected_with_the_known_ones(given: object) -> None:
    with pytest.raises(InvalidSetting, match=r"key\.serializer must be a function or one of bytes"):
        serializer(given, "key.serializer")


@pytest.mark.parametrize(
    ("name", "value"),
    [("str", b"bytes"), ("int", 2.5), ("int32", 2**31), ("bool", 1), ("uuid", "tea")],
)
def test_values_are_not_coerced(name: str, value: object) -> None:
    serialize: Any = serializer(name, "value.serializer")
    with pytest.raises((TypeError, ValueError, OverflowError)):
        serialize(value)


@pytest.mark.parametrize(
    ("name", "raw"),
    [("int", b"\0\0\0\1"), ("int", b""), ("int32", b"tea"), ("float", b"\0\0\0\0"), ("bool", b"x")],
)
def test_bytes_of_the_wrong_size_are_rejected(name: str, raw: bytes) -> None:
    deserialize: Any = deserializer(name, "value.deserializer")
    with pytest.raises(ValueError, match="byte"):
        deserialize(raw)
