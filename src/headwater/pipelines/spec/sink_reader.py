"""Read the sinks of a pipeline's file.

The name of a sink is the name of its folder in the checkpoint. So the default name comes from what
the sink does and not from its position in the file, which may change.
"""

from pathlib import Path
from typing import Any, Final

from headwater.pipelines.spec.avro_spec import read_encoding
from headwater.pipelines.spec.durations import duration_ms
from headwater.pipelines.spec.pipeline_spec import (
    HEADWATER,
    Mode,
    NewTopicSpec,
    RecordSpec,
    SinkSpec,
    TableSpec,
    Trigger,
)
from headwater.pipelines.spec.section import Section
from headwater.pipelines.spec.table_reader import read_table
from headwater.pipelines.spec.transform_reader import read_transform_list
from headwater.spark.locations import resolved
from headwater.spark.settings_files import beside

_USUAL: Final = Trigger(every_ms=1_000)
_AVAILABLE_NOW: Final = "available-now"
_MODES: Final = {each.value: each for each in Mode}


def read_sink(section: Section, folder: Path) -> SinkSpec:
    source = section.text("from", is_needed=True) or ""
    connector = section.text("connector")
    # With a connector, `format` is its option.
    chosen = HEADWATER if connector is not None else section.text("format") or HEADWATER
    is_topic = connector is None and chosen == HEADWATER
    name = section.text("name")
    mode = section.choice("mode", _MODES, Mode.APPEND)
    trigger = _trigger(section)
    record = _record(section) if is_topic else RecordSpec()
    encoding = read_encoding(section, folder) if is_topic else None
    create = _create(section) if is_topic else None
    is_format = connector is None and not is_topic
    table = read_table(section) if is_format else TableSpec()
    transforms = read_transform_list(section, is_topic=is_topic, is_sink=True)
    options = section.rest()
    if connector is None and not is_topic and "path" in options:
        options["path"] = resolved(options["path"], folder)
    if is_topic:
        options = beside(options, folder)
    return SinkSpec(
        name=name or _default_name(source, connector or chosen, options, table.name),
        place=section.place,
        source=source,
        format=chosen,
        connector=connector,
        options=options,
        mode=mode,
        trigger=trigger,
        record=record,
        encoding=encoding,
        create=create,
        table=table,
        transforms=transforms,
    )


def _default_name(source: str, kind: str, options: dict[str, str], table: str | None) -> str:
    where = options.get("topic") or table or Path(options.get("path", kind)).name
    return f"{source}-to-{where}"


def _trigger(section: Section) -> Trigger:
    value: Any = section.raw("trigger")
    if value is None:
        return _USUAL
    if isinstance(value, str):
        every_ms = duration_ms(value)
        if value == _AVAILABLE_NOW:
            return Trigger()
        if every_ms is not None:
            return Trigger(every_ms=every_ms)
    elif isinstance(value, dict):
        match list(value.items()):
            case [("available_now", True)]:
                return Trigger()
            case [("every", str(text))] if (every_ms := duration_ms(text)) is not None:
                return Trigger(every_ms=every_ms)
    section.add_problem(
        f"trigger must be {{every: 10s}} or {{available_now: true}}, not {value!r}", "trigger"
    )
    return _USUAL


def _record(section: Section) -> RecordSpec:
    return RecordSpec(
        key=section.text("key"),
        value=section.text("value"),
        headers=section.mapping("headers"),
        tombstone=section.text("tombstone"),
    )


def _create(section: Section) -> NewTopicSpec | None:
    inner = section.inner("create")
    if inner is None:
        return None
    usual = NewTopicSpec()
    found = NewTopicSpec(
        partitions=inner.number("partitions", usual.partitions, 1),
        replication_factor=inner.number("replication_factor", usual.replication_factor, 1),
        configs=inner.mapping("configs"),
    )
    inner.report_unknown()
    return found
