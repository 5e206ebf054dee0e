"""Avro of a pipeline's sources and sinks, through the registry of the test."""

from typing import Any

from headwater.pipelines.spec.pipeline_spec import Decoding, PipelineSpec, SinkSpec, SourceSpec
from headwater.testing.pipelines.pipeline_result import Deserializer
from headwater.testing.pipelines.source_records import InvalidRow, Serializer


def needs_registry(spec: PipelineSpec) -> bool:
    parts = [part for source in spec.sources for part in (source.key, source.value)]
    return any(part is not None and part.avro is not None for part in parts) or any(
        sink.encoding is not None and sink.encoding.parts for sink in spec.sinks
    )


def serializers(
    source: SourceSpec, url: str | None, topic: str, schema: str | None
) -> dict[str, Serializer]:
    """Of those parts of a source's records that are Avro; they register their schemas."""
    parts: dict[str, Decoding | None] = {"key": source.key, "value": source.value}
    avro = {name: each.avro for name, each in parts.items() if each is not None and each.avro}
    if not avro:
        return {}
    assert url is not None, "a pipeline with Avro has a registry"
    from headwater.client.avro import AvroSerializer
    from headwater.client.schema_registry import SchemaRegistry

    registry = SchemaRegistry(url)
    found: dict[str, Serializer] = {}
    for name, spec in avro.items():
        text = spec.schema or schema
        if text is None:
            raise InvalidRow(f"the {name} of {source.name} is Avro: feed(..., schema=...)")
        found[name] = AvroSerializer(registry, text, topic=topic, is_key=name == "key")
    return found


def deserializers(sink: SinkSpec, url: str | None) -> dict[str, Deserializer]:
    if sink.encoding is None or not sink.encoding.parts:
        return {}
    assert url is not None, "a pipeline with Avro has a registry"
    from headwater.client.avro import AvroDeserializer
    from headwater.client.schema_registry import SchemaRegistry

    read: Any = AvroDeserializer(SchemaRegistry(url))

    def deserialize(value: bytes | None) -> Any:
        return None if value is None else read(value)

    return dict.fromkeys(sink.encoding.parts, deserialize)
