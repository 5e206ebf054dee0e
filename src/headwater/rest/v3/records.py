"""Produce records with API v3: each key and value has its own format."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from headwater.client.errors import KafkaError, KafkaTimeout, SerializationFailed
from headwater.client.producer.record_future import RecordMetadata
from headwater.client.serialization.schema_registry_serde import (
    SubjectNaming,
    record_subject,
    topic_record_subject,
    topic_subject,
)
from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.rest.body_fields import BodyFields
from headwater.rest.formats.embedded_format import EmbeddedFormat, base64_bytes, encode
from headwater.rest.formats.schema_formats import FoundSchema, SchemaChoice
from headwater.rest.rest_errors import (
    RestProxyError,
    bad_request,
    partition_not_found,
    rest_error_for,
)
from headwater.rest.rest_request import RestAnswer, RestRequest
from headwater.rest.v2.topics import is_missing_topic

BATCH_ENTRIES_MAX: Final = 1_000
_ID_CHARS_MAX: Final = 80
_HOSTS_NOT: Final = "This server does not host this topic-partition."
_STRATEGIES: Final[dict[str, SubjectNaming]] = {
    "TOPIC_NAME": topic_subject,
    "RECORD_NAME": record_subject,
    "TOPIC_RECORD_NAME": topic_record_subject,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """A key or value, and what the response says about it."""

    raw: bytes | None = None
    format: EmbeddedFormat | None = None
    schema: FoundSchema | None = None

    def described(self) -> dict[str, Any] | None:
        if self.format is None:
            return None
        found: dict[str, Any] = {"type": self.format.value, "size": len(self.raw or b"")}
        if self.schema is not None:
            found |= {
                "subject": self.schema.subject,
                "schema_id": self.schema.id,
                "schema_version": self.schema.version,
            }
        return found


async def start_record(request: RestRequest) -> Awaitable[Any]:
    """Send the record in the body; the result is awaited separately.

    So the records of a stream are sent in order, without waiting for each other.
    """
    cluster_id, topic = request.parts[0], request.parts[1]
    await request.clients.check_cluster(cluster_id)
    return await _start(request, topic, request.fields(status=400))


async def produce_batch(request: RestRequest) -> Any:
    """Send several records; one that fails does not stop the others."""
    cluster_id, topic = request.parts[0], request.parts[1]
    await request.clients.check_cluster(cluster_id)
    entries = list(request.fields(status=400).objects("entries"))
    if len(entries) > BATCH_ENTRIES_MAX:
        raise RestProxyError(422, "Too many entries in batch.", 42208)
    ids = [each.text("id") for each in entries]
    if not all(0 < len(each) <= _ID_CHARS_MAX for each in ids):
        raise RestProxyError(422, "Batch entry identifier is not a valid string.", 42208)
    if len(set(ids)) < len(ids):
        raise RestProxyError(422, "Batch entry IDs are not distinct.", 42208)
    pending: list[Awaitable[Any] | RestProxyError] = []
    for entry in entries:
        try:
            pending.append(await _start(request, topic, entry))
        except HeadwaterError as error:
            pending.append(rest_error_for(error))
    successes, failures = [], []
    for entry_id, each in zip(ids, pending, strict=True):
        try:
            if isinstance(each, RestProxyError):
                raise each
            result = await each
        except HeadwaterError as failure:
            found = rest_error_for(failure)
            failures.append(
                {"id": entry_id, "error_code": found.error_code, "message": found.message}
            )
        else:
            del result["error_code"]
            successes.append({"id": entry_id, **result})
    return RestAnswer(status=207, body={"successes": successes, "failures": failures})


async def _start(request: RestRequest, topic: str, body: BodyFields) -> Awaitable[Any]:
    partition = body.optional_number("partition_id", least=-(2**31))
    if partition is not None and partition < 0:
        raise partition_not_found()
    headers = [
        (
            each.text("name"),
            None if each.value("value") is None else base64_bytes(each.value("value")),
        )
        for each in body.optional_objects("headers")
    ]
    timestamp = _timestamp(body)
    key = await _data(request, topic, body.optional_object("key"), is_key=True)
    value = await _data(request, topic, body.optional_object("value"), is_key=False)
    await _check_partition(request, topic, partition)
    sent = await request.clients.producer.send(
        topic,
        value.raw,
        key.raw,
        partition=partition,
        timestamp=timestamp,
        headers=headers or None,
    )
    return _delivered(request.parts[0], sent, key, value)


async def _delivered(
    cluster_id: str, sent: Awaitable[RecordMetadata], key: _Data, value: _Data
) -> dict[str, Any]:
    where = await sent
    return {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": where.topic,
        "partition_id": where.partition,
        "offset": where.offset,
        "timestamp": _time_text(where.timestamp),
        "key": key.described(),
        "value": value.described(),
    }


async def _check_partition(request: RestRequest, topic: str, partition: int | None) -> None:
    try:
        count = await request.clients.partition_count(topic)
    except KafkaTimeout as error:
        raise RestProxyError(404, _HOSTS_NOT, 40403) from error
    except KafkaError as error:
        if is_missing_topic(error):
            raise RestProxyError(404, _HOSTS_NOT, 40403) from error
        raise
    if partition is not None and partition >= count:
        raise partition_not_found()


async def _data(
    request: RestRequest, topic: str, given: BodyFields | None, *, is_key: bool
) -> _Data:
    if given is None:
        return _Data()
    embedded = _format(given)
    data = given.value("data")
    if embedded is not None and not embedded.requires_schema:
        return _Data(raw=encode(embedded, data), format=embedded)
    schema = await request.clients.schemas.find(_choice(given, embedded, topic, is_key=is_key))
    if data is None:
        return _Data(format=schema.format, schema=schema)
    try:
        return _Data(raw=schema.encode(data), format=schema.format, schema=schema)
    except SerializationFailed as error:
        raise bad_request(str(error)) from error


def _format(given: BodyFields) -> EmbeddedFormat | None:
    text = given.optional_text("type")
    if text is None:
        return None
    try:
        return EmbeddedFormat(text)
    except ValueError:
        raise bad_request(f"type must be one of {', '.join(EmbeddedFormat)}") from None


def _choice(
    given: BodyFields, embedded: EmbeddedFormat | None, topic: str, *, is_key: bool
) -> SchemaChoice:
    schema_id = given.optional_number("schema_id")
    version = given.optional_number("schema_version", least=1)
    schema = given.optional_text("schema")
    if sum(each is not None for each in (schema_id, version, schema)) > 1:
        raise bad_request("Only one of schema_id, schema_version and schema can be used.")
    if schema is not None and embedded is None:
        raise bad_request("schema needs a type.")
    return SchemaChoice(
        subject=_subject(given, topic, schema, is_key=is_key),
        format=embedded,
        schema_id=schema_id,
        version=version,
        schema=schema,
    )


def _subject(given: BodyFields, topic: str, schema: str | None, *, is_key: bool) -> str:
    subject = given.optional_text("subject")
    strategy = given.optional_text("subject_name_strategy")
    if subject is not None and strategy is not None:
        raise bad_request("Only one of subject and subject_name_strategy can be used.")
    if subject is not None:
        return subject
    naming = _STRATEGIES.get(strategy or "TOPIC_NAME")
    if naming is None:
        raise bad_request(f"subject_name_strategy must be one of {', '.join(_STRATEGIES)}")
    try:
        return naming(topic, _record_name(schema), is_key=is_key)
    except InvalidSetting as error:
        raise bad_request(str(error)) from error


def _record_name(schema: str | None) -> str | None:
    """The name of an Avro record, or the title of a JSON Schema."""
    try:
        found = json.loads(schema) if schema else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    name = found.get("name", found.get("title"))
    namespace = found.get("namespace")
    if not isinstance(name, str):
        return None
    return f"{namespace}.{name}" if isinstance(namespace, str) and "." not in name else name


def _timestamp(body: BodyFields) -> int | None:
    """A time such as `2026-11-18T12:00:00Z`, in milliseconds since 1970."""
    text = body.optional_text("timestamp")
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        found = int(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        found = -1
    if found < 0:
        raise bad_request("timestamp must be a time since 1970 such as 2026-11-18T12:00:00Z")
    return found


def _time_text(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    try:
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
