"""Read the table settings of a pipeline file: name, catalog, partitions, merge."""

import re
from typing import Final

from headwater.pipelines.spec.pipeline_spec import MergeSpec, PartitionField, TableSpec
from headwater.pipelines.spec.section import Section

_COLUMN: Final = r"[A-Za-z_][\w.]*"
_PARTITION: Final = re.compile(
    rf"({_COLUMN})|(year|month|day|hour)\(\s*({_COLUMN})\s*\)"
    rf"|(bucket|truncate)\(\s*(\d+)\s*,\s*({_COLUMN})\s*\)"
)


def read_table(section: Section) -> TableSpec:
    """Read the settings of a sink that writes a table or files."""
    files = section.number("files", 0, 1)
    return TableSpec(
        name=section.text("table"),
        catalog=_catalog(section),
        partition_by=_partitions(section),
        files=files or None,
        merge=_merge(section),
        schema_evolution=section.flag("schema_evolution"),
    )


def read_source_table(section: Section) -> TableSpec:
    if isinstance(section.raw("table"), bool):
        return TableSpec()
    return TableSpec(name=section.text("table"), catalog=_catalog(section))


def _catalog(section: Section) -> dict[str, str]:
    if isinstance(section.raw("catalog"), str):
        name = section.text("catalog")
        return {} if name is None else {"name": name}
    return section.mapping("catalog")


def _partitions(section: Section) -> tuple[PartitionField, ...]:
    found = []
    for text in section.texts("partition_by"):
        matched = _PARTITION.fullmatch(text.strip())
        if matched is None:
            section.add_problem(
                f"{text!r} is not a partition field: use column, day(column), bucket(16, column)",
                "partition_by",
            )
        elif matched[1]:
            found.append(PartitionField(column=matched[1]))
        elif matched[2]:
            found.append(PartitionField(column=matched[3], transform=matched[2]))
        else:
            width = int(matched[5])
            found.append(PartitionField(column=matched[6], transform=matched[4], width=width))
    return tuple(found)


def _merge(section: Section) -> MergeSpec | None:
    inner = section.inner("merge")
    if inner is None:
        return None
    found = MergeSpec(
        keys=inner.texts("keys"),
        sequence_by=inner.text("sequence_by"),
        apply_as_deletes=inner.text("apply_as_deletes"),
        except_column_list=inner.texts("except_column_list"),
    )
    if not found.keys:
        inner.add_problem("merge needs keys: the columns that identify a row")
    inner.report_unknown()
    return found
