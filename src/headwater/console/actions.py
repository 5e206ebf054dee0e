"""Changes that users can make from the console, one function per form.

Note: these functions do not check whether changes are allowed or where the request came from.
`headwater.console.server` has done that before.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.admin.descriptions import ConfigResource
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import bad_request, not_found
from headwater.console.context import ConsoleRequest
from headwater.console.form_fields import whole, whole_int32
from headwater.console.html import link_to
from headwater.console.offset_reset_plan import read_plan
from headwater.console.views.schemas import expect_registry
from headwater.console.views.topics import known_topic
from headwater.console.views.transactions import abort

PRODUCE_FORMATS: Final = ("text", "json", "hex", "avro", "json-schema", "protobuf", "null")
REGISTERED_FORMATS: Final = ("avro", "json-schema", "protobuf")
"""Formats that need a registry: JSON input, serialized with the topic's latest schema."""

_HIGH_WATERMARK: Final = -1

DONE: Final = {
    "topic-created": "The topic was created.",
    "topic-deleted": "The topic was deleted.",
    "partitions-added": "The partitions were added.",
    "config-set": "The config was set.",
    "config-reset": "The config was reset to its default.",
    "record-sent": "The record was produced.",
    "records-deleted": "The records were deleted.",
    "offsets-reset": "The offsets were reset.",
    "group-deleted": "The group was deleted.",
    "schema-registered": "The schema was registered.",
    "compatibility-set": "The compatibility level was set.",
    "stop-requested": "The pipeline was asked to stop.",
    "transaction-aborted": "The transaction was aborted.",
    "reassignment-cancelled": "The reassignment was cancelled.",
    "acl-created": "The ACL was added.",
    "acl-deleted": "The ACL was deleted.",
    "user-saved": "The user's credential was saved.",
    "user-deleted": "The user's credential was deleted.",
    "quota-saved": "The quota was saved.",
}
"""Messages after a change. A fixed list, so that no link can inject text into a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Result of a change, and the page that shows it."""

    done: str
    where: str
    partition: int | None = None
    offset: int | None = None


async def create_topic(call: ConsoleRequest) -> Done:
    name = call.field("name")
    await call.admin.create_topic(
        name,
        partitions=_count(call, "partitions"),
        replication_factor=_count(call, "replicas"),
        configs=call.named("configs"),
    )
    call.console.cluster_views.forget()
    return Done(done="topic-created", where=link_to("topics", name))


async def delete_topic(call: ConsoleRequest) -> Done:
    name = call.parts[0]
    call.expect_confirmation(name, "the topic and all its records are to be deleted")
    await call.admin.delete_topics([name])
    call.console.cluster_views.forget()
    return Done(done="topic-deleted", where=link_to("topics"))


async def add_partitions(call: ConsoleRequest) -> Done:
    name = call.parts[0]
    partitions = whole_int32(call.field("partitions"), "partitions")
    await call.admin.create_partitions({name: partitions})
    call.console.cluster_views.forget()
    return Done(done="partitions-added", where=link_to("topics", name))


async def change_config(call: ConsoleRequest) -> Done:
    """Set a topic config, or remove it with `reset`."""
    name, config = call.parts[0], call.field("name")
    is_reset = bool(call.fields.get("reset"))
    value = None if is_reset else call.fields.get("value", "")
    await call.admin.alter_configs({ConfigResource.topic(name): {config: value}})
    where = link_to("topics", name, "configs")
    return Done(done="config-reset" if is_reset else "config-set", where=where)


async def produce(call: ConsoleRequest) -> Done:
    """Produce one record; an empty key is null, a value only with the format null."""
    topic = call.parts[0]
    partition = await _partition(call, topic)
    key_format = call.fields.get("key_format", "") or "text"
    key = call.fields.get("key", "")
    sent = await call.console.connections.producer().send_and_wait(
        topic,
        await _bytes(
            call,
            call.fields.get("value", ""),
            call.fields.get("value_format", "") or "text",
            is_key=False,
        ),
        key=None if key == "" else await _bytes(call, key, key_format, is_key=True),
        partition=partition,
        headers=[(name, value.encode()) for name, value in call.named("headers").items()],
    )
    return Done(
        done="record-sent",
        where=link_to("topics", topic, "records"),
        partition=sent.partition,
        offset=sent.offset,
    )


async def delete_records(call: ConsoleRequest) -> Done:
    """Delete all records, or those of one partition, or those before an offset."""
    name = call.parts[0]
    call.expect_confirmation(name, "these records are to be deleted")
    known = known_topic(await call.cluster_view(name), name)
    partition = await _partition(call, name)
    numbers = [each.partition for each in known.partitions] if partition is None else [partition]
    offset = call.fields.get("offset", "").strip()
    before = whole(offset, "offset") if offset else _HIGH_WATERMARK
    await call.admin.delete_records({TopicPartition(name, each): before for each in numbers})
    call.console.cluster_views.forget()
    return Done(done="records-deleted", where=link_to("topics", name))


async def reset_offsets(call: ConsoleRequest) -> Done:
    """Apply a reset plan that the user has seen, offset by offset."""
    group = call.parts[0]
    plan = read_plan(call.field("plan"))
    await call.admin.alter_group_offsets(group, dict(plan))
    return Done(done="offsets-reset", where=link_to("groups", group))


async def delete_group(call: ConsoleRequest) -> Done:
    group = call.parts[0]
    call.expect_confirmation(group, "the group and its offsets are to be deleted")
    await call.admin.delete_groups([group])
    return Done(done="group-deleted", where=link_to("groups"))


async def stop_pipeline(call: ConsoleRequest) -> Done:
    name = call.parts[0]
    await call.console.runs.request_stop(name)
    return Done(done="stop-requested", where=link_to("pipelines", name))


async def abort_transaction(call: ConsoleRequest) -> Done:
    topic = call.field("topic")
    number = whole(call.field("partition"), "partition")
    await _expect_partition(call, topic, number)
    partition_id = TopicPartition(topic, number)
    producer_id = whole(call.field("producer_id"), "producer_id")
    call.expect_confirmation(str(producer_id), "its transaction is to be aborted")
    await abort(call.admin, partition_id, producer_id)
    return Done(done="transaction-aborted", where=link_to("transactions"))


def _count(call: ConsoleRequest, name: str) -> int:
    """A positive number; -1 (the broker's default) if it is empty."""
    number = whole_int32(call.fields.get(name, ""), name, -1)
    if number == 0 or number < -1:
        raise bad_request(f"'{name}' must be at least 1, or empty for the broker's default.")
    return number


async def _partition(call: ConsoleRequest, topic: str) -> int | None:
    """Partition of a record; None to partition by key.

    Checked first: a producer would create a missing topic, and wait for a missing partition.
    """
    given = call.fields.get("partition", "").strip()
    number = whole(given, "partition") if given else None
    await _expect_partition(call, topic, number or 0)
    return number


async def _expect_partition(call: ConsoleRequest, topic: str, number: int) -> None:
    known = known_topic(await call.cluster_view(topic), topic)
    if not 0 <= number < len(known.partitions):
        raise not_found(f"'{topic}' has no partition {number}.")


async def _bytes(call: ConsoleRequest, text: str, given_as: str, *, is_key: bool) -> bytes | None:
    match given_as:
        case "null":
            return None
        case "text":
            return text.encode()
        case "json":
            _json(text)
            return text.encode()
        case "hex":
            try:
                return bytes.fromhex(text)
            except ValueError as error:
                raise bad_request(f"Invalid hex: {error}.") from None
        case "avro" | "json-schema" | "protobuf":
            return await _registered(call, _json(text), given_as, is_key=is_key)
        case _:
            raise bad_request(
                f"Unknown format '{given_as}'. Formats: {', '.join(PRODUCE_FORMATS)}."
            )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"Invalid JSON: {error}.") from None


async def _registered(call: ConsoleRequest, value: Any, given_as: str, *, is_key: bool) -> bytes:
    """Serialize with the latest schema that the registry has for this topic."""
    registry = expect_registry(call.console.connections.registry)
    kind = _serializer(given_as)

    def serialize() -> bytes:
        topic = call.parts[0]
        return kind(registry, topic=topic, is_key=is_key, use_latest_version=True)(value)

    return await asyncio.to_thread(serialize)


def _serializer(given_as: str) -> Callable[..., Callable[[Any], bytes]]:
    match given_as:
        case "avro":
            from headwater.client.avro import AvroSerializer

            return AvroSerializer
        case "protobuf":
            from headwater.client.protobuf import ProtobufSerializer

            return ProtobufSerializer
        case _:
            from headwater.client.json_schema import JsonSerializer

            return JsonSerializer
