"""Sessions: DuckDB with the topics of a cluster as tables.

    with headwater.sql.connect("localhost:9092") as session:
        session.sql("select kind, sum(amount) from orders group by kind").pandas()

A session runs one query at a time; a new query ends the unfinished one. Topics that a query
names become tables of DuckDB just before it runs: `topic_types` finds their columns, `topic_reader`
reads what DuckDB asks for.

Note: DuckDB would also take Python variables for tables, download extensions and read files. The
first two are switched off, and statements about extensions are rejected, since an extension is
native code; `external_access=False` switches off the third, for queries of other people, and locks
these settings.
"""

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.sql.query_names import NamedTopic, QueryToken, named_topics, quoted
from headwater.sql.query_progress import QueryProgress
from headwater.sql.query_result import QueryResult
from headwater.sql.registry_readers import RegistryReaders
from headwater.sql.sql_errors import (
    NO_EXTENSIONS,
    Problem,
    QueryError,
    UnknownTable,
    describe,
    nearest,
    read_problem,
)
from headwater.sql.topic_reader import PlannedScan, QueryReading, TableDataset, topic_span
from headwater.sql.topic_scan import SETTINGS, PartitionRange, ReaderPool
from headwater.sql.topic_table import TableView, TopicTable
from headwater.sql.topic_types import OTHERS, Formats, topic_table

try:
    import duckdb
except ImportError as error:
    raise InvalidSetting("duckdb is not installed: pip install 'headwater[sql]'") from error

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_MEMORY_LIMIT: Final = "1GB"
_FOLLOW_INTERVAL_S: Final = 1.0
_ABOUT_EXTENSIONS: Final = re.compile(
    r"\bupdate\s+extensions\b"
    r"|\b(?:set|pragma|reset)\s+(?:(?:global|session|local)\s+)?\w*extension",
    re.IGNORECASE,
)


def connect(
    bootstrap_servers: str,
    *,
    settings: Mapping[str, object] | None = None,
    registry: str | None = None,
    registry_settings: Mapping[str, str] | None = None,
    value_formats: Mapping[str, str] | str | None = None,
    key_formats: Mapping[str, str] | str | None = None,
    max_lateness_ms: int | None = None,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
    external_access: bool = True,
) -> "SqlSession":
    """Open a session.

    `settings` are consumer settings, `registry` is the URL of a schema registry. Formats are
    `auto`, `avro`, `protobuf`, `json-schema`, `json`, `text` or `bytes`, for all topics or by
    topic, where `*` stands for all others. Without `external_access`, queries cannot read or write
    files.

    With `max_lateness_ms`, an upper bound of `_timestamp` ends reading at the first record that
    is so much newer; without it, only for topics with `message.timestamp.type=LogAppendTime`.
    """
    return SqlSession(
        {**SETTINGS, **(settings or {}), "bootstrap.servers": bootstrap_servers},
        registry=None
        if registry is None
        else RegistryReaders(registry, dict(registry_settings or {})),
        formats=Formats(keys=_by_topic(key_formats), values=_by_topic(value_formats)),
        max_lateness_ms=max_lateness_ms,
        memory_limit=memory_limit,
        external_access=external_access,
    )


def _by_topic(given: Mapping[str, str] | str | None) -> dict[str, str]:
    if given is None:
        return {}
    return {OTHERS: given} if isinstance(given, str) else dict(given)


class SqlSession:
    """A session; `connect` opens one. A context manager, for one thread at a time."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        registry: RegistryReaders | None,
        formats: Formats,
        max_lateness_ms: int | None,
        memory_limit: str,
        external_access: bool,
    ) -> None:
        formats.check()
        self._settings = dict(settings)
        self._readers = ReaderPool(self._settings)
        self._registry = registry
        self._formats = formats
        self._max_lateness_ms = max_lateness_ms
        self._tables: dict[str, TopicTable] = {}
        self._partition_counts: dict[str, int] = {}
        self._registered: list[str] = []
        self._running: QueryResult | None = None
        self._folder = tempfile.mkdtemp(prefix="headwater-sql-")
        self._database = _open_database(self._folder, memory_limit, external_access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the query, close all connections. Idempotent."""
        self._end_running()
        self._database.close()
        self._readers.close()
        if self._registry is not None:
            self._registry.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Queries.

    def sql(
        self,
        query: str,
        parameters: Sequence[object] | Mapping[str, object] | None = None,
        *,
        progress: QueryProgress | None = None,
    ) -> QueryResult:
        """Run a query; rows are read as the result is used. Raises `QueryError`."""
        reading = self._reading(progress=progress)
        return self._run(query, parameters, reading)

    def explain(self, query: str) -> str:
        """Say what a query would read of each topic, and DuckDB's plan. Reads no records.

        Raises `QueryError` for any other statement, since the plan of a topic's scan is found by
        running the query on no records, which would run a COPY or CREATE TABLE, too.
        """
        kinds = [_kind_of(each) for each in self._parsed(query)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise QueryError("only a single query can be explained, no other statement")
        reading = self._reading(is_dry=True)
        with self._run(query, None, reading) as result:
            for _ in result.batches():
                pass
        lines = [_scan_text(each) for each in reading.scans] or ["reads no topic"]
        plan = self._run(f"explain {query}", None, self._reading(is_dry=True))
        with plan:
            return "\n".join([*lines, "", *(str(row[-1]).rstrip() for row in plan.rows())])

    def follow(
        self,
        query: str,
        *,
        interval_s: float = _FOLLOW_INTERVAL_S,
        stop: threading.Event | None = None,
    ) -> Iterator[QueryResult]:
        """Run a query over what arrives in the first topic that it names, again and again.

        Each result is of the records since the one before, starting with the next record; other
        tables are read as a whole each time. Ends when `stop` is set.
        """
        ended = stop or threading.Event()
        named = [each for each in self._named(query) if each.view is not TableView.ERRORS]
        if not named:
            raise QueryError("a query that is followed has to name a topic")
        topic = named[0].topic
        position = {each.partition: each.end for each in self._span(topic)}
        while not ended.is_set():
            span = self._span(topic)
            arrived = tuple(
                PartitionRange(
                    partition=each.partition,
                    start=max(position.get(each.partition, each.start), each.start),
                    end=each.end,
                )
                for each in span
            )
            if any(each.start < each.end for each in arrived):
                yield self._run(query, None, self._reading(windows={topic: arrived}))
                position = {each.partition: max(each.start, each.end) for each in arrived}
            ended.wait(interval_s)

    def statements(self, text: str) -> list[str]:
        """Split a text at its semicolons."""
        return [each.query.strip() for each in self._parsed(text)]

    def _parsed(self, text: str) -> list[Any]:
        try:
            return list(self._database.extract_statements(text))
        except duckdb.Error as error:
            raise self._sql_error(text, error, []) from None

    # Tables.

    def topics(self) -> list[str]:
        """Names of topics."""
        self._partition_counts = self._list_topics()
        return sorted(self._partition_counts)

    def table(self, topic: str) -> TopicTable:
        """The columns of a topic and how they were found; remembered until `refresh`."""
        if topic not in self._tables:
            if topic not in self._partition_counts:
                self._partition_counts = self._list_topics()
            if topic not in self._partition_counts:
                raise QueryError(_unknown_topic(topic, self._partition_counts))
            self._tables[topic] = topic_table(
                topic,
                self._partition_counts[topic],
                readers=self._readers,
                registry=self._registry,
                formats=self._formats,
            )
        return self._tables[topic]

    def refresh(self) -> None:
        """Forget the columns of topics: the next query looks again."""
        self._tables.clear()
        self._partition_counts.clear()

    def register(self, name: str, table: Any) -> None:
        """Make an Arrow table, dataset, reader or a data frame a table of this session."""
        self._database.register(name, table)

    # Inside.

    def _reading(
        self,
        *,
        is_dry: bool = False,
        windows: Mapping[str, tuple[PartitionRange, ...]] | None = None,
        progress: QueryProgress | None = None,
    ) -> QueryReading:
        return QueryReading(
            readers=self._readers,
            lateness_of=self._lateness_ms,
            partition_counts=self._partition_counts,
            windows=windows or {},
            is_dry=is_dry,
            progress=progress or QueryProgress(),
        )

    def _run(
        self,
        query: str,
        parameters: Sequence[object] | Mapping[str, object] | None,
        reading: QueryReading,
    ) -> QueryResult:
        self._end_running()
        named = self._named(query)
        self._register_topics(named, reading)
        reading.progress.on_cancel(self._interrupt)
        result = QueryResult(
            reading.progress,
            lambda error: self._sql_error(query, error, named),
            scans=reading.scans,
        )
        self._running = result
        try:
            result.start(lambda: self._execute(query, parameters))
        except UnknownTable:
            # The topic may be new.
            self._partition_counts = self._list_topics()
            found = self._named(query)
            if found == named:
                raise
            named[:] = found
            self._register_topics(named, reading)
            result.start(lambda: self._execute(query, parameters))
        return result

    def _execute(
        self, query: str, parameters: Sequence[object] | Mapping[str, object] | None
    ) -> Any:
        """Run all statements; return the relation of the last one, which is streamed."""
        statements = self._database.extract_statements(query)
        if not statements:
            raise QueryError("there is no query")
        if any(map(_changes_extensions, statements)):
            raise QueryError(NO_EXTENSIONS)
        *first, last = statements
        for each in first:
            self._database.execute(each)
        try:
            return self._database.sql(last, params=parameters)
        except (duckdb.BinderException, duckdb.CatalogException):
            # Raises the same error with its position, which `sql` leaves out.
            self._database.execute(last, parameters)
            raise

    def _end_running(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _interrupt(self) -> None:
        self._database.interrupt()

    def _named(self, query: str) -> list[NamedTopic]:
        try:
            places = duckdb.tokenize(query)
        except duckdb.Error:
            return []
        raw = query.encode()
        tokens = []
        for (start, kind), (stop, _) in zip(places, [*places[1:], (len(raw), None)], strict=True):
            text = raw[start:stop].decode("utf-8", "replace").strip()
            tokens.append(
                QueryToken(
                    text,
                    is_name=kind == duckdb.token_type.identifier,
                    is_keyword=kind == duckdb.token_type.keyword,
                )
            )
        if not any(each.is_name or each.is_keyword for each in tokens):
            return []
        if not self._partition_counts:
            self._partition_counts = self._list_topics()
        found = named_topics(tokens, self._partition_counts)
        own = self._own_tables()
        return [each for each in found if each.name.lower() not in own]

    def _own_tables(self) -> set[str]:
        """Tables and views that the user has created; they hide topics."""
        rows = self._database.execute(
            "select table_name from duckdb_tables() where not internal union all "
            "select view_name from duckdb_views() where not internal and not temporary "
            "and schema_name = 'main'"
        ).fetchall()
        return {str(row[0]).lower() for row in rows}

    def _register_topics(self, named: Sequence[NamedTopic], reading: QueryReading) -> None:
        for name in self._registered:
            self._database.unregister(name)
        self._registered.clear()
        if named:
            # Partitions may have been added.
            with self._readers.lent() as reader:
                counts = reader.topics({each.topic for each in named})
            self._partition_counts.update(counts)
        reading.partition_counts = self._partition_counts
        for each in named:
            self._register_topic(each, reading)
            self._registered.append(each.name)

    def _register_topic(self, named: NamedTopic, reading: QueryReading) -> None:
        table = self.table(named.topic)
        view = named.view

        def open_batches(names: Sequence[str], predicate: Any) -> "Iterator[pa.RecordBatch]":
            return reading.open(table, view, names, predicate)

        self._database.register(named.name, TableDataset(table.schema(view), open_batches))
        schema, _, rest = named.name.partition(".")
        if named.is_qualified and rest and "." not in rest:
            self._database.execute(f"create schema if not exists {_in_quotes(schema)}")
            self._database.execute(
                f"create or replace view {_in_quotes(schema)}.{_in_quotes(rest)} as "
                f"from {_in_quotes(named.name)}"
            )

    def _list_topics(self) -> dict[str, int]:
        with self._readers.lent() as reader:
            return reader.topics()

    def _span(self, topic: str) -> tuple[PartitionRange, ...]:
        return topic_span(self._readers, topic, self._partition_counts[topic])

    def _lateness_ms(self, topic: str) -> int | None:
        if self._max_lateness_ms is not None:
            return self._max_lateness_ms
        return 0 if self._is_log_append_time(topic) else None

    def _is_log_append_time(self, topic: str) -> bool:
        from headwater.client import Admin, ConfigResource
        from headwater.client.admin.admin_calls import AdminSettings
        from headwater.client.settings import supported_settings

        name = "message.timestamp.type"
        resource = ConfigResource.topic(topic)
        try:
            with Admin(supported_settings(AdminSettings, self._settings)) as admin:
                entry = admin.describe_configs([resource], names=[name])[resource].get(name)
        except KafkaError:
            # Without permission to see it, all records are read.
            return False
        return entry is not None and entry.value == "LogAppendTime"

    def _sql_error(
        self, query: str, error: BaseException, named: Sequence[NamedTopic]
    ) -> HeadwaterError:
        """Turn an exception of DuckDB into one that shows the place in the query."""
        cause = error
        while cause is not None and not isinstance(cause, HeadwaterError):
            cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
        if isinstance(cause, HeadwaterError):
            return cause
        problem = read_problem(str(error))
        kind = QueryError if problem.table is None else UnknownTable
        return kind(describe(query, problem, self._hint(problem, named)))

    def _hint(self, problem: Problem, named: Sequence[NamedTopic]) -> str | None:
        if problem.table is not None:
            return _suggestion(
                nearest(problem.table, [*self._partition_counts, *self._own_tables()])
            )
        if problem.column is not None:
            columns = {
                name
                for each in named
                if each.topic in self._tables
                for name in self._tables[each.topic].schema(each.view).names
            }
            close = nearest(problem.column, columns | set(problem.candidates))
            if close:
                return _suggestion(close)
            return f"columns: {', '.join(sorted(columns))}" if columns else None
        return None


def _open_database(folder: str, memory_limit: str, external_access: bool) -> Any:
    config: dict[str, Any] = {
        "memory_limit": memory_limit,
        "temp_directory": folder,
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_unsigned_extensions": "false",
    }
    try:
        database = duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    database.execute("set errors_as_json = true")
    database.execute("set enable_progress_bar = false")
    if not external_access:
        database.execute("set enable_external_access = false")
        database.execute("set lock_configuration = true")
    return database


def _kind_of(statement: Any) -> Any:
    """Return the type of a statement; None if the Python package lacks it."""
    try:
        return statement.type
    except ValueError:
        return None


def _changes_extensions(statement: Any) -> bool:
    """Whether a statement concerns extensions or their settings."""
    kind = _kind_of(statement)
    if kind is duckdb.StatementType.LOAD:
        return True
    may_change = kind in (duckdb.StatementType.SET, duckdb.StatementType.PRAGMA, None)
    return may_change and _ABOUT_EXTENSIONS.search(statement.query) is not None


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _suggestion(names: Sequence[str]) -> str | None:
    return f"did you mean {' or '.join(quoted(each) for each in names)}?" if names else None


def _unknown_topic(topic: str, known: Mapping[str, int]) -> str:
    hint = _suggestion(nearest(topic, known))
    return f"there is no topic {topic}" + (f": {hint}" if hint else "")


def _scan_text(scan: PlannedScan) -> str:
    """One reading of a topic, for people."""
    places: dict[TopicPartition, list[str]] = {}
    for each in scan.ranges:
        places.setdefault(each.partition, []).append(f"{each.start}-{each.end - 1}")
    listed = "; ".join(
        f"partition {place.partition}: {', '.join(spans)}"
        for place, spans in sorted(places.items())
    )
    lines = [
        f"{scan.table}: {scan.planned_offsets:,} of {scan.offsets:,} offsets in {len(places)} of "
        f"{scan.partitions} partitions",
        f"  offsets: {listed or 'none'}",
        f"  columns: {', '.join(scan.columns)}",
    ]
    if scan.predicate is not None:
        lines.append(f"  pushed down: {scan.predicate}")
    return "\n".join(lines)
