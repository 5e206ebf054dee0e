"""Consumer instances of API v2: create, subscribe, read, commit, delete."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.rest.body_fields import INT_MAX, LONG_MAX, BodyFields
from headwater.rest.consumer_instances import InstanceName
from headwater.rest.consumer_reader import ConsumerReader, ReadLimits
from headwater.rest.formats.embedded_format import EmbeddedFormat, decode
from headwater.rest.formats.schema_formats import CODECS, SCHEMA_TYPES
from headwater.rest.media_types import V2_EMBEDDED, V2_PLAIN, chosen_type
from headwater.rest.rest_errors import (
    RestProxyError,
    format_mismatch,
    invalid_consumer_config,
    partition_not_found,
)
from headwater.rest.rest_request import NO_CONTENT, RestAnswer, RestRequest, partition_of

TIMEOUT_MS_MAX: Final = 60_000
NAME_CHARS_MAX: Final = 249

_NAME_BYTES: Final = 16
_FETCH_MAX_BYTES: Final = 8 * 1024 * 1024
_FORMATS: Final = {
    each.value.lower(): each for each in EmbeddedFormat if each is not EmbeddedFormat.STRING
}


async def create_instance(request: RestRequest) -> Any:
    body = request.fields(status=422) if request.body is not None else BodyFields({}, status=422)
    group = _checked_name(request.parts[0], "group")
    given_name = body.optional_text("id") or body.optional_text("name")
    instance = _checked_name(given_name or _generated_name(request), "name")
    embedded = _chosen_format(body)
    limits = _limits(request, body)
    own = _consumer_settings(request, body, group)

    def make() -> ConsumerReader:
        try:
            consumer = request.clients.consumer(own)
        except InvalidSetting as error:
            raise invalid_consumer_config(str(error)) from error
        return ConsumerReader(
            consumer,
            request.context.clock,
            embedded=embedded,
            decode=_decoder(request, embedded),
            limits=limits,
        )

    request.context.instances.create(InstanceName(group, instance), make)
    url = request.url("consumers", group, "instances", instance)
    return {"instance_id": instance, "base_uri": url}


async def delete_instance(request: RestRequest) -> Any:
    await request.context.instances.delete(_name(request))
    return NO_CONTENT


async def subscribe(request: RestRequest) -> Any:
    body = request.fields(status=422)
    pattern = body.optional_text("topic_pattern")
    topics = None if pattern is not None and body.value("topics") is None else body.texts("topics")
    if topics is not None and pattern is not None:
        raise RestProxyError(
            409, "Subscription to topics, partitions and pattern are mutually exclusive.", 40903
        )
    async with request.context.instances.use(_name(request)) as reader:
        reader.subscribe(topics, pattern)
    return NO_CONTENT


async def get_subscription(request: RestRequest) -> Any:
    async with request.context.instances.use(_name(request)) as reader:
        return {"topics": reader.subscription()}


async def unsubscribe(request: RestRequest) -> Any:
    async with request.context.instances.use(_name(request)) as reader:
        await reader.unsubscribe()
    return NO_CONTENT


async def assign(request: RestRequest) -> Any:
    partitions = _partitions(request)
    async with request.context.instances.use(_name(request)) as reader:
        reader.assign(partitions)
    return NO_CONTENT


async def get_assignment(request: RestRequest) -> Any:
    async with request.context.instances.use(_name(request)) as reader:
        found = reader.assignment()
    return {"partitions": [_place(each) for each in found]}


async def seek(request: RestRequest) -> Any:
    body = request.fields(status=422)
    offsets = {
        partition_of(each): each.number("offset", most=LONG_MAX)
        for each in body.optional_objects("offsets")
    }
    times = {
        partition_of(each): _milliseconds(each.text("timestamp"))
        for each in body.optional_objects("timestamps")
    }
    async with request.context.instances.use(_name(request)) as reader:
        if times:
            offsets |= await reader.offsets_at(times)
        reader.seek(offsets)
    return NO_CONTENT


async def seek_to_beginning(request: RestRequest) -> Any:
    partitions = _partitions(request)
    async with request.context.instances.use(_name(request)) as reader:
        reader.seek_to_beginning(partitions)
    return NO_CONTENT


async def seek_to_end(request: RestRequest) -> Any:
    partitions = _partitions(request)
    async with request.context.instances.use(_name(request)) as reader:
        reader.seek_to_end(partitions)
    return NO_CONTENT


async def read_records(request: RestRequest) -> Any:
    async with request.context.instances.use(_name(request)) as reader:
        media_type = _records_type(request, reader.format)
        limits = reader.limits
        timeout_ms = request.query_number("timeout", -1)
        max_bytes = request.query_number("max_bytes", -1)
        if timeout_ms > 0:
            limits = replace(limits, timeout_ms=min(timeout_ms, limits.timeout_ms))
        if max_bytes > 0:
            limits = replace(limits, max_bytes=min(max_bytes, limits.max_bytes))
        found = await reader.read(limits)
    return RestAnswer(body=found, media_type=media_type)


async def commit_offsets(request: RestRequest) -> Any:
    offsets = None
    if request.body is not None:
        # The request names the last record that was read, a commit the next one to read.
        offsets = {
            partition_of(each): OffsetAndMetadata(
                each.number("offset", most=LONG_MAX - 1) + 1, each.optional_text("metadata") or ""
            )
            for each in request.fields(status=422).objects("offsets")
        }
    async with request.context.instances.use(_name(request)) as reader:
        await reader.commit(offsets)
    return []


async def get_committed_offsets(request: RestRequest) -> Any:
    if request.body is None:
        raise partition_not_found()
    partitions = _partitions(request)
    async with request.context.instances.use(_name(request)) as reader:
        found = await reader.committed(partitions)
    return {
        "offsets": [
            {**_place(each), "offset": found[each].offset, "metadata": found[each].metadata}
            for each in dict.fromkeys(partitions)
            if each in found
        ]
    }


def _name(request: RestRequest) -> InstanceName:
    return InstanceName(request.parts[0], request.parts[1])


def _checked_name(name: str, what: str) -> str:
    if not name or len(name) > NAME_CHARS_MAX:
        raise invalid_consumer_config(f"{what} must have 1 to {NAME_CHARS_MAX} characters")
    return name


def _generated_name(request: RestRequest) -> str:
    """A name that other clients cannot guess."""
    own_id = request.context.settings.id
    random = request.context.rng.bytes(_NAME_BYTES).hex()
    return f"rest-consumer-{own_id}-{random}" if own_id else f"rest-consumer-{random}"


def _chosen_format(body: BodyFields) -> EmbeddedFormat:
    text = body.optional_text("format")
    found = _FORMATS.get((text or "binary").lower())
    if found is None or (found.requires_schema and SCHEMA_TYPES[found] not in CODECS):
        raise RestProxyError(422, "Invalid format type.")
    return found


def _limits(request: RestRequest, body: BodyFields) -> ReadLimits:
    settings = request.context.settings
    timeout_ms = body.optional_number("consumer.request.timeout.ms")
    min_bytes = body.optional_number("fetch.min.bytes", least=-1)
    if min_bytes is None:
        min_bytes = settings.fetch_min_bytes
    return ReadLimits(
        timeout_ms=min(
            settings.consumer_request_timeout_ms if timeout_ms is None else timeout_ms,
            TIMEOUT_MS_MAX,
        ),
        # -1 means: wait for the whole timeout.
        min_bytes=INT_MAX if min_bytes < 0 else min_bytes,
        max_bytes=settings.consumer_request_max_bytes,
        max_records=settings.max_poll_records,
    )


def _consumer_settings(request: RestRequest, body: BodyFields, group: str) -> dict[str, Any]:
    own: dict[str, Any] = {
        "group.id": group,
        "max.poll.records": request.context.settings.max_poll_records,
        "fetch.max.bytes": _FETCH_MAX_BYTES,
    }
    for name, setting in (
        ("auto.commit.enable", "enable.auto.commit"),
        ("auto.offset.reset", "auto.offset.reset"),
    ):
        value = body.value(name)
        if isinstance(value, bool):
            value = str(value).lower()
        if value is not None:
            if not isinstance(value, str):
                raise invalid_consumer_config(f"{name} must be a string")
            own[setting] = value
    return own


def _decoder(request: RestRequest, embedded: EmbeddedFormat) -> Any:
    if embedded.requires_schema:
        return partial(request.clients.schemas.decode, embedded)

    async def decode_plain(raw: bytes | None) -> Any:
        return decode(embedded, raw)

    return decode_plain


def _records_type(request: RestRequest, embedded: EmbeddedFormat) -> str:
    """The response's media type; 40601 if the client wants another format."""
    own = next(kind for kind, each in V2_EMBEDDED.items() if each is embedded)
    if chosen_type(request.accepted, (own, *V2_PLAIN)) is None:
        raise format_mismatch()
    return own


def _partitions(request: RestRequest) -> list[TopicPartition]:
    return [partition_of(each) for each in request.fields(status=422).objects("partitions")]


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _milliseconds(text: str) -> int:
    """A time such as `2026-11-18T12:00:00Z` in milliseconds since 1970."""
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(int(when.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise RestProxyError(422, "timestamp must be a time such as 2026-11-18T12:00:00Z") from None
