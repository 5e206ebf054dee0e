"""Iceberg tables through PyIceberg: catalogs, schemas, idempotent commits.

A commit stores query id and batch id twice: in the summary of its snapshot, where a user can see
them, and as a table property, which remains when snapshots expire. Both change atomically with the
data, so a batch that is repeated after a crash is recognized and skipped.

No Spark is needed here.
"""

import importlib
import importlib.util
import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headwater.pipelines.spec.pipeline_spec import PartitionField, TableSpec
from headwater.spark.exceptions import InvalidOption, WrongColumns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

QUERY_ID: Final = "headwater.query-id"
BATCH_ID: Final = "headwater.batch-id"
COMPACTED: Final = "headwater.compacted"
"""Marks a snapshot that has other files and the same rows: PyIceberg has no `replace` yet."""

# Of Parquet: several times this as Arrow.
_COMPACTED_BYTES: Final = 64 << 20
_SMALL: Final = 0.75
_DONE: Final = "headwater.batch."
_TRIES: Final = 10
# PyIceberg's own retries would apply the change again without looking for the batch.
_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
# Of `Or`, whose branches are a tree: as deep as the logarithm of their number.
_MOST_KEYS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOfQuery:
    """Identifies the batch of a query that is committed."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """A table, by its catalog and name."""

    name: str
    catalog: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: TableSpec) -> "IcebergTable":
        if spec.name is None or not spec.catalog:
            raise InvalidOption("iceberg needs table and catalog")
        return cls(name=spec.name, catalog=dict(spec.catalog))

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    def opened(self) -> "Catalog":
        from pyiceberg.catalog import load_catalog

        properties = dict(self.catalog)
        name = properties.pop("name", "headwater")
        with _in_one_line(f"the catalog {name}"):
            return load_catalog(name, **properties)

    def load(self) -> "Table":
        with _in_one_line(f"the table {self.name}"):
            return self.opened().load_table(self.name)

    def prepare(
        self,
        schema: pa.Schema,
        partition_by: Iterable[PartitionField] = (),
        *,
        schema_evolution: bool = False,
    ) -> "Table":
        """Load or create the table; add new columns if that is enabled."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        catalog = self.opened()
        with _in_one_line(f"the table {self.name}"):
            if not catalog.table_exists(self.name):
                catalog.create_namespace_if_not_exists(self.namespace)
                with suppress(TableAlreadyExistsError):
                    self._create(catalog, schema, partition_by)
            table = catalog.load_table(self.name)
            if schema_evolution:
                _add_columns(table, schema)
        refuse_misfit(table, schema)
        return table

    def _create(
        self, catalog: "Catalog", schema: pa.Schema, partition_by: Iterable[PartitionField]
    ) -> None:
        with catalog.create_table_transaction(self.name, schema) as transaction:
            partitions = list(partition_by)
            if partitions:
                with transaction.update_spec() as update:
                    for each in partitions:
                        update.add_field(each.column, _transform(each), _partition_name(each))

    def commit(
        self,
        batch: BatchOfQuery,
        files: "list[DataFile]",
        *,
        keys: pa.Table | None = None,
    ) -> bool:
        """Delete rows with `keys` and add files; False for a repeated batch.

        If another writer commits first, the table is loaded again and checked for the batch again.
        """
        from pyiceberg.exceptions import CommitFailedException

        properties = {QUERY_ID: batch.query_id, BATCH_ID: str(batch.batch_id)}
        for attempt in range(_TRIES):
            table = self.load()
            if is_committed(table, batch):
                return False
            transaction = _without_retries(table).transaction()
            transaction.set_properties({_DONE + batch.query_id: str(batch.batch_id)})
            if keys is not None and len(keys):
                _delete(transaction, keys, properties)
            if files:
                with transaction.update_snapshot(
                    snapshot_properties=properties
                ).fast_append() as add:
                    for file in files:
                        add.append_data_file(file)
            try:
                transaction.commit_transaction()
            except CommitFailedException:
                if attempt == _TRIES - 1:
                    raise
                continue
            return True
        raise AssertionError("the last try raises")

    def compact(self, target_bytes: int = _COMPACTED_BYTES) -> tuple[int, int]:
        """Rewrite a partition's small files as one; return file counts.

        Each commit replaces the files of one new file, and holds its rows in memory. Readers of
        older snapshots keep their files. If another writer commits first, the files are looked for
        again.
        """
        before = after = 0
        for paths in self._small_files(target_bytes):
            added = self._rewrite(paths)
            if added is not None:
                before += len(paths)
                after += added
        return before, after

    def _small_files(self, target_bytes: int) -> "list[frozenset[str]]":
        """Files to rewrite together, by their paths."""
        table = self.load()
        parts: dict[Any, list[DataFile]] = {}
        for task in table.scan().plan_files():
            file = task.file
            is_small = file.file_size_in_bytes < target_bytes * _SMALL
            if is_small and not task.delete_files and file.spec_id == table.spec().spec_id:
                parts.setdefault(file.partition, []).append(file)
        return [group for files in parts.values() for group in _packed(files, target_bytes)]

    def _rewrite(self, paths: frozenset[str]) -> int | None:
        """Rewrite files; return their new number, or None if some no longer exist."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        for _ in range(_TRIES):
            table = self.load()
            tasks = [each for each in table.scan().plan_files() if each.file.file_path in paths]
            if len(tasks) < len(paths) or any(each.delete_files for each in tasks):
                return None
            scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
            files = writer_of(table)(scan.to_table(tasks))
            transaction = _without_retries(table).transaction()
            update = transaction.update_snapshot(snapshot_properties={COMPACTED: "true"})
            with update.overwrite() as replacing:
                for task in tasks:
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)
            try:
                transaction.commit_transaction()
            except CommitFailedException:
                continue
            return len(files)
        return None


def _packed(files: "list[DataFile]", target_bytes: int) -> "Iterator[frozenset[str]]":
    """Group two or more files whose total size is about the target."""
    group: list[str] = []
    size_bytes = 0
    for file in files:
        if size_bytes + file.file_size_in_bytes > target_bytes:
            if len(group) > 1:
                yield frozenset(group)
            group, size_bytes = [], 0
        group.append(file.file_path)
        size_bytes += file.file_size_in_bytes
    if len(group) > 1:
        yield frozenset(group)


def is_committed(table: "Table", batch: BatchOfQuery) -> bool:
    done = table.properties.get(_DONE + batch.query_id)
    return done is not None and int(done) >= batch.batch_id


def refuse_misfit(table: "Table", schema: pa.Schema) -> None:
    """Reject unknown columns, and types that do not match the table's."""
    known = {each.name for each in table.schema().fields}
    new = [name for name in schema.names if name not in known]
    if new:
        raise WrongColumns(
            f"the table has no column {', '.join(new)}: set schema_evolution: true to add it"
        )
    from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible

    try:
        # It prints a table of all columns as well.
        with redirect_stdout(io.StringIO()):
            _check_pyarrow_schema_compatible(
                table.schema(), schema, format_version=table.format_version
            )
    except ValueError as error:
        raise WrongColumns(f"the columns do not match the table: {_mismatches(error)}") from error


def _mismatches(error: Exception) -> str:
    """Return the rows of PyIceberg's printed table that report mismatches."""
    rows = [[cell.strip() for cell in line.split("│")] for line in str(error).splitlines()]
    wrong = [
        f"{row[2]} in the table, {row[3]} here" for row in rows if len(row) > 3 and "❌" in row
    ]
    return "; ".join(wrong) or _one_line(error)


def writer_of(table: "Table") -> "Callable[[pa.Table], list[DataFile]]":
    """Return a picklable function that writes rows into data files."""
    return _FileWriter(table.metadata.model_dump_json(), dict(table.io.properties))


class _FileWriter:
    """Writes files that no snapshot refers to yet, so failed tasks leave no rows."""

    def __init__(self, metadata: str, properties: dict[str, Any]) -> None:
        self._metadata = metadata
        self._properties = properties

    def __call__(self, rows: pa.Table) -> "list[DataFile]":
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import _dataframe_to_data_files
        from pyiceberg.table.metadata import TableMetadataUtil

        metadata = TableMetadataUtil.parse_obj(json.loads(self._metadata))
        files = load_file_io(self._properties, metadata.location)
        return list(_dataframe_to_data_files(metadata, rows, files))


def _without_retries(table: "Table") -> "Table":
    """Return the table without PyIceberg's own commit retries."""
    properties = {**table.metadata.properties, **_NO_RETRIES}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _add_columns(table: "Table", schema: pa.Schema) -> None:
    known = {each.name for each in table.schema().fields}
    if any(name not in known for name in schema.names):
        with table.update_schema() as update:
            update.union_by_name(schema)


def _delete(transaction: "Transaction", keys: pa.Table, properties: dict[str, str]) -> None:
    from pyiceberg.table.upsert_util import create_match_filter

    if len(keys) > _MOST_KEYS:
        raise InvalidOption(
            f"a batch changes {len(keys)} keys, and at most {_MOST_KEYS} can be merged at once: "
            "set maxOffsetsPerTrigger of the source"
        )
    with warnings.catch_warnings():
        # Deletes nothing if the keys are new, which is usual.
        warnings.simplefilter("ignore")
        transaction.delete(
            create_match_filter(keys, list(keys.column_names)), snapshot_properties=properties
        )


def _transform(each: PartitionField) -> Any:
    from pyiceberg import transforms

    match each.transform:
        case "bucket":
            return transforms.BucketTransform(num_buckets=each.width or 1)
        case "truncate":
            return transforms.TruncateTransform(width=each.width or 1)
        case name:
            return getattr(transforms, f"{name.capitalize()}Transform")()


def _partition_name(each: PartitionField) -> str:
    return each.column if each.transform == "identity" else f"{each.column}_{each.transform}"


@contextmanager
def _in_one_line(what: str) -> "Iterator[None]":
    """Turn errors of PyIceberg and its libraries into one that names the table."""
    try:
        yield
    except _errors() as error:
        raise InvalidOption(f"{what}: {_one_line(error)}") from error


def _errors() -> tuple[type[Exception], ...]:
    """Return the exception classes, since PyIceberg's have no common base."""
    from pyiceberg import exceptions

    found = [each for each in vars(exceptions).values() if isinstance(each, type)]
    if importlib.util.find_spec("sqlalchemy") is not None:
        found.append(importlib.import_module("sqlalchemy.exc").SQLAlchemyError)
    return (OSError, ValueError, ImportError, *found)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
