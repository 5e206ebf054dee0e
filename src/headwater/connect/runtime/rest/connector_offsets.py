"""Read, alter and reset a connector's offsets, for the REST API.

A source's offsets are in the offset topic, a sink's are committed by its consumer group. A sink
also has a planned batch in the offset topic, which must not outlive its offsets.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.client.errors import GroupIdNotFound
from headwater.common.ids import TopicPartition
from headwater.connect.runtime.connect_errors import bad_request
from headwater.connect.runtime.connect_records import OffsetRecord
from headwater.connect.runtime.connect_store import ConnectStore
from headwater.connect.runtime.connector_config import CONNECTOR_CLASS
from headwater.connect.runtime.connector_plugins import PluginType, find_plugin
from headwater.connect.runtime.task.task_setup import (
    SINK_PARTITION,
    sink_group,
    source_partition,
    task_transactional_id,
)
from headwater.connect.runtime.worker_settings import WorkerSettings
from headwater.spark.exceptions import InvalidOption

_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"


async def read_offsets(store: ConnectStore, name: str) -> list[dict[str, Any]]:
    """Partitions and offsets of a connector."""
    if not _is_sink(store, name):
        found = store.state.offsets(name)
        return [
            {"partition": partition, "offset": offset}
            for partition, offset in found
            if partition != SINK_PARTITION
        ]
    return [
        {
            "partition": {_TOPIC: each.topic, _PARTITION: each.partition},
            "offset": {_OFFSET: offset},
        }
        for each, offset in (await _committed(store, name)).items()
    ]


async def alter_offsets(
    store: ConnectStore, settings: WorkerSettings, name: str, given: object
) -> None:
    """Set offsets; a null offset resets its partition. Raises `ConnectRestError`."""
    if not isinstance(given, list) or not given:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    wanted = [_entry(each) for each in given]
    transactional_id = task_transactional_id(settings.group_id, name)
    if _is_sink(store, name):
        offsets = {_topic_partition(partition): _offset(offset) for partition, offset in wanted}
        await store.put_offsets(
            transactional_id, lambda _: [OffsetRecord(name, SINK_PARTITION, None)]
        )
        await _alter_group(store, name, offsets)
        return
    partition = _own_partition(store, name)
    for each, _ in wanted:
        if each != partition:
            raise bad_request(f"The only partition of this connector is {partition}, not {each}")
    records = [OffsetRecord(name, each, offset) for each, offset in wanted]
    await store.put_offsets(transactional_id, lambda _: records)


async def reset_offsets(store: ConnectStore, settings: WorkerSettings, name: str) -> None:
    """Remove all offsets: the connector starts at the beginning."""
    is_sink = _is_sink(store, name)
    await store.put_offsets(
        task_transactional_id(settings.group_id, name),
        lambda state: [OffsetRecord(name, partition, None) for partition, _ in state.offsets(name)],
    )
    if is_sink:
        await _alter_group(store, name, dict.fromkeys(await _committed(store, name)))


def _is_sink(store: ConnectStore, name: str) -> bool:
    config = store.state.configs[name]
    try:
        return find_plugin(config.get(CONNECTOR_CLASS, ""), config).type is PluginType.SINK
    except InvalidOption as error:
        raise bad_request(str(error)) from None


def _own_partition(store: ConnectStore, name: str) -> dict[str, str]:
    config = store.state.configs[name]
    return source_partition(find_plugin(config[CONNECTOR_CLASS], config).name)


async def _committed(store: ConnectStore, name: str) -> dict[TopicPartition, int]:
    async with store.new_admin() as admin:
        try:
            found = await admin.list_group_offsets(sink_group(name))
        except GroupIdNotFound:
            return {}
    return {each: found[each].offset for each in sorted(found)}


async def _alter_group(
    store: ConnectStore, name: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    altered = {each: offset for each, offset in offsets.items() if offset is not None}
    deleted = [each for each, offset in offsets.items() if offset is None]
    async with store.new_admin() as admin:
        if altered:
            await admin.alter_group_offsets(sink_group(name), altered)
        if deleted:
            await admin.delete_group_offsets(sink_group(name), deleted)


def _entry(given: object) -> tuple[dict[str, Any], dict[str, Any] | None]:
    if not isinstance(given, dict) or not isinstance(given.get("partition"), dict):
        raise bad_request("Each of the offsets needs a partition, which is a JSON object")
    offset = given.get("offset")
    if offset is not None and not isinstance(offset, dict):
        raise bad_request("An offset must be a JSON object or null")
    return given["partition"], offset


def _topic_partition(given: Mapping[str, Any]) -> TopicPartition:
    try:
        return TopicPartition(str(given[_TOPIC]), int(given[_PARTITION]))
    except (KeyError, TypeError, ValueError):
        raise bad_request(
            f"The partition for a sink connector offset must have the keys '{_TOPIC}' and "
            f"'{_PARTITION}'"
        ) from None


def _offset(given: Mapping[str, Any] | None) -> int | None:
    if given is None:
        return None
    try:
        found = int(given[_OFFSET])
    except (KeyError, TypeError, ValueError):
        raise bad_request(
            f"The offset for a sink connector should have the key '{_OFFSET}' and a number"
        ) from None
    if found < 0:
        raise bad_request("The offset for a sink connector must not be negative")
    return found
