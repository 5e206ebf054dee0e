"""Produce requests of API v2: many records in one body, in one embedded format."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.client.errors import KafkaError, KafkaTimeout, SerializationFailed
from headwater.client.producer.record_future import RecordMetadata
from headwater.rest.body_fields import BodyFields
from headwater.rest.formats.embedded_format import EmbeddedFormat, encode
from headwater.rest.formats.schema_formats import FoundSchema, SchemaChoice
from headwater.rest.media_types import V2_EMBEDDED
from headwater.rest.rest_errors import (
    RestProxyError,
    conversion_failed,
    partition_not_found,
    rest_error_for,
    schema_missing,
    topic_not_found,
)
from headwater.rest.rest_request import RestAnswer, RestRequest
from headwater.rest.v2.topics import is_missing_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    key: bytes | None
    value: bytes | None
    partition: int | None


async def produce_to_topic(request: RestRequest) -> Any:
    return await _produced(request, None)


async def produce_to_partition(request: RestRequest) -> Any:
    return await _produced(request, request.number(1))


async def _produced(request: RestRequest, partition: int | None) -> Any:
    topic = request.parts[0]
    embedded = _format(request)
    body = request.fields(status=422)
    given = list(body.objects("records"))
    key_schema = value_schema = None
    if embedded.requires_schema:
        key_schema = await _schema(request, body, embedded, topic, is_key=True)
        value_schema = await _schema(request, body, embedded, topic, is_key=False)
    records = [
        _Record(
            key=_bytes(embedded, key_schema, each.value("key"), is_key=True),
            value=_bytes(embedded, value_schema, each.value("value"), is_key=False),
            partition=each.optional_number("partition") if partition is None else partition,
        )
        for each in given
    ]
    partition_count = await _partition_count(request, topic)
    if partition is not None and partition >= partition_count:
        raise partition_not_found()
    results = [
        await _sent(request, topic, each, partition_count=partition_count) for each in records
    ]
    return await _answer(results, key_schema, value_schema)


def _format(request: RestRequest) -> EmbeddedFormat:
    found = V2_EMBEDDED.get(request.content_type)
    if found is None:
        raise RestProxyError(415, "HTTP 415 Unsupported Media Type")
    return found


async def _schema(
    request: RestRequest, body: BodyFields, embedded: EmbeddedFormat, topic: str, *, is_key: bool
) -> FoundSchema | None:
    what = "key" if is_key else "value"
    schema = body.optional_text(f"{what}_schema")
    schema_id = body.optional_number(f"{what}_schema_id")
    if schema is None and schema_id is None:
        return None
    choice = SchemaChoice(
        subject=f"{topic}-{what}",
        format=embedded,
        schema=schema if schema_id is None else None,
        schema_id=schema_id,
    )
    return await request.clients.schemas.find(choice)


def _bytes(
    embedded: EmbeddedFormat, schema: FoundSchema | None, data: Any, *, is_key: bool
) -> bytes | None:
    if not embedded.requires_schema:
        return encode(embedded, data)
    if data is None:
        # As in Confluent's serializers, null is a record without a value, whatever the schema.
        return None
    if schema is None:
        raise schema_missing(is_key=is_key)
    try:
        return schema.encode(data)
    except SerializationFailed as error:
        raise conversion_failed(str(error)) from error


async def _partition_count(request: RestRequest, topic: str) -> int:
    try:
        return await request.clients.partition_count(topic)
    except KafkaTimeout as error:
        raise topic_not_found() from error
    except KafkaError as error:
        if is_missing_topic(error):
            raise topic_not_found() from error
        raise


async def _sent(
    request: RestRequest, topic: str, record: _Record, *, partition_count: int
) -> Awaitable[RecordMetadata] | RestProxyError:
    """Send a record; its error is part of the response."""
    if record.partition is not None and record.partition >= partition_count:
        return partition_not_found()
    try:
        return await request.clients.producer.send(
            topic, record.value, record.key, partition=record.partition
        )
    except KafkaError as error:
        return rest_error_for(error)


async def _answer(
    results: Sequence[Awaitable[RecordMetadata] | RestProxyError],
    key_schema: FoundSchema | None,
    value_schema: FoundSchema | None,
) -> RestAnswer:
    offsets = [await _offset(each) for each in results]
    codes = [each["error_code"] for each in offsets]
    status = 401 if 40101 in codes else 403 if 40301 in codes else 200
    return RestAnswer(
        status=status,
        body={
            "offsets": offsets,
            "key_schema_id": None if key_schema is None else key_schema.id,
            "value_schema_id": None if value_schema is None else value_schema.id,
        },
    )


async def _offset(result: Awaitable[RecordMetadata] | RestProxyError) -> dict[str, Any]:
    if not isinstance(result, RestProxyError):
        try:
            where = await result
        except KafkaError as error:
            result = rest_error_for(error)
        else:
            return {
                "partition": where.partition,
                "offset": where.offset,
                "error_code": None,
                "error": None,
            }
    return {
        "partition": None,
        "offset": None,
        "error_code": result.error_code,
        "error": result.message,
    }
