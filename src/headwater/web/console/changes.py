"""What may be done from the console: one function a form, which says what was done.

What a reader would get wrong: none of these asks whether changes are allowed at all, nor where the
request came from. The door has done that before (`headwater.web.console.door`).
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.admin.descriptions import ConfigResource
from headwater.model.ids import TopicPartition
from headwater.web.console.context import Call, whole
from headwater.web.console.group_resets import read_plan
from headwater.web.console.html import link_to
from headwater.web.console.refusals import bad_request
from headwater.web.console.schemas import expect_registry
from headwater.web.console.transactions import abort

PRODUCE_FORMATS: Final = ("text", "json", "hex", "avro", "json-schema", "null")
REGISTERED_FORMATS: Final = ("avro", "json-schema")
"""Those that need a registry: they take JSON, and the newest schema of the topic."""

DONE: Final = {
    "topic-created": "The topic was created.",
    "topic-deleted": "The topic was deleted.",
    "partitions-added": "The partitions were added.",
    "config-set": "The config was set.",
    "config-reset": "The config is back at its default.",
    "record-sent": "The record was written.",
    "offsets-reset": "The offsets were reset.",
    "group-deleted": "The group was deleted.",
    "transaction-aborted": "The transaction was aborted.",
}
"""What pages say after a change. A fixed list: no link can make a page say anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done, and the page that shows it."""

    done: str
    where: str
    partition: int | None = None
    offset: int | None = None


async def create_topic(call: Call) -> Done:
    name = call.field("name")
    await call.admin.create_topic(
        name,
        partitions=_count(call, "partitions"),
        replication_factor=_count(call, "replicas"),
        configs=named_lines(call.fields.get("configs", ""), "configs"),
    )
    call.console.survey.forget()
    return Done(done="topic-created", where=link_to("topics", name))


async def delete_topic(call: Call) -> Done:
    name = call.parts[0]
    call.expect_confirmation(name, "the topic and all of its records shall be deleted")
    await call.admin.delete_topics([name])
    call.console.survey.forget()
    return Done(done="topic-deleted", where=link_to("topics"))


async def add_partitions(call: Call) -> Done:
    name = call.parts[0]
    await call.admin.create_partitions({name: whole(call.field("partitions"), "partitions")})
    call.console.survey.forget()
    return Done(done="partitions-added", where=link_to("topics", name))


async def change_config(call: Call) -> Done:
    """Set a config of a topic, or with `reset` go back to what holds without it."""
    name, config = call.parts[0], call.field("name")
    is_reset = bool(call.fields.get("reset"))
    value = None if is_reset else call.fields.get("value", "")
    await call.admin.alter_configs({ConfigResource.topic(name): {config: value}})
    where = link_to("topics", name, "configs")
    return Done(done="config-reset" if is_reset else "config-set", where=where)


async def produce(call: Call) -> Done:
    """One record. No key is the key null; a value is null only if its format says so."""
    topic = call.parts[0]
    partition = call.fields.get("partition", "").strip()
    key_format = call.fields.get("key_format", "") or "text"
    key = call.fields.get("key", "")
    headers = named_lines(call.fields.get("headers", ""), "headers")
    sent = await call.console.connections.producer().send_and_wait(
        topic,
        await _bytes(
            call,
            call.fields.get("value", ""),
            call.fields.get("value_format", "") or "text",
            is_key=False,
        ),
        key=None if key == "" else await _bytes(call, key, key_format, is_key=True),
        partition=whole(partition, "partition") if partition else None,
        headers=[(name, value.encode()) for name, value in headers.items()],
    )
    return Done(
        done="record-sent",
        where=link_to("topics", topic, "records"),
        partition=sent.partition,
        offset=sent.offset,
    )


async def reset_offsets(call: Call) -> Done:
    """Carry out a plan that was shown, offset by offset."""
    group = call.parts[0]
    plan = read_plan(call.field("plan"))
    await call.admin.alter_group_offsets(group, dict(plan))
    return Done(done="offsets-reset", where=link_to("groups", group))


async def delete_group(call: Call) -> Done:
    group = call.parts[0]
    call.expect_confirmation(group, "the group and its offsets shall be deleted")
    await call.admin.delete_groups([group])
    return Done(done="group-deleted", where=link_to("groups"))


async def abort_transaction(call: Call) -> Done:
    place = TopicPartition(call.field("topic"), whole(call.field("partition"), "partition"))
    producer_id = whole(call.field("producer_id"), "producer_id")
    call.expect_confirmation(str(producer_id), "its transaction shall be aborted")
    await abort(call.admin, place, producer_id)
    return Done(done="transaction-aborted", where=link_to("transactions"))


def named_lines(text: str, what: str) -> dict[str, str]:
    """`name=value`, a line each."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise bad_request(f"'{what}' has a name=value on each line, and not '{line[:60]}'.")
        found[name.strip()] = value.strip()
    return found


def _count(call: Call, name: str) -> int:
    """A number, or -1: the broker chooses."""
    number = whole(call.fields.get(name, ""), name, -1)
    if number == 0 or number < -1:
        raise bad_request(f"'{name}' is 1 or more, or empty for what the brokers have as default.")
    return number


async def _bytes(call: Call, text: str, given_as: str, *, is_key: bool) -> bytes | None:
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
                raise bad_request(f"This is no hex: {error}.") from None
        case "avro" | "json-schema":
            return await _registered(call, _json(text), given_as, is_key=is_key)
        case _:
            raise bad_request(f"'{given_as}' is none of {', '.join(PRODUCE_FORMATS)}.")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"This is no JSON: {error}.") from None


async def _registered(call: Call, value: Any, given_as: str, *, is_key: bool) -> bytes:
    """With the latest schema that the registry has for this topic."""
    from headwater.client.avro import AvroSerializer
    from headwater.client.json_schema import JsonSerializer

    registry = expect_registry(call.console.connections.registry)
    kind = AvroSerializer if given_as == "avro" else JsonSerializer

    def serialize() -> bytes:
        topic = call.parts[0]
        return kind(registry, topic=topic, is_key=is_key, use_latest_version=True)(value)

    return await asyncio.to_thread(serialize)
