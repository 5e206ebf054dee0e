"""Built-in connectors: the checks for every connector, and their own features."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from headwater.common.exceptions import HeadwaterError
from headwater.connect import Sink, Source
from headwater.connect.connector_registry import SINKS, SOURCES, known, open_sink, open_source
from headwater.connect.files_connector import FilesSource
from headwater.connect.postgresql_client import connect
from headwater.connect.postgresql_connector import DELETED
from headwater.connect.seen_files import FolderFile
from headwater.spark.exceptions import InvalidOption, UnreadableFile, WrongColumns
from headwater.spark.sink.exactly_once import BatchIdentity
from headwater.testing.connector_checks import SinkChecks, SourceChecks
from tests import postgresql

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql.server() as uri:
        yield uri


@pytest.fixture
def table(database: str) -> str:
    """The name of a table that does not exist yet."""
    run(database, "DROP TABLE IF EXISTS tea")
    run(database, "DROP TABLE IF EXISTS headwater_batches")
    return "tea"


def run(uri: str, statement: str) -> None:
    with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        connection.commit()


def select(uri: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]


class TestPostgresqlSource(SourceChecks):
    @pytest.fixture(autouse=True)
    def _table(self, database: str, table: str) -> None:
        self.uri, self.table, self.next = database, table, 0
        run(database, f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")

    def source(self) -> Source:
        options = {"uri": self.uri, "table": self.table, "incrementing": "id"}
        return open_source("postgresql", {**options, "maxRowsPerTrigger": "4"})

    def add(self, count: int) -> None:
        for number in range(self.next, self.next + count):
            run(self.uri, f"INSERT INTO {self.table} VALUES ({number}, 'row {number}')")
        self.next += count

    def test_second_column_distinguishes_rows_with_the_same_timestamp(self) -> None:
        run(self.uri, "DROP TABLE tea")
        run(self.uri, "CREATE TABLE tea (id BIGINT, at TIMESTAMP)")
        options = {"uri": self.uri, "table": "tea", "incrementing": "at,id"}
        source = open_source("postgresql", {**options, "maxRowsPerTrigger": "3"})
        for number in range(5):
            run(self.uri, f"INSERT INTO tea VALUES ({number}, '2024-01-01 00:00:00.123456')")
        first = source.latest({})
        second = source.latest(first)
        assert first != second
        assert source.latest(second) == second
        found = [
            row["id"]
            for start, end in (({}, first), (first, second))
            for split in source.splits(start, end)
            for batch in source.read(split)
            for row in batch.to_pylist()
        ]
        assert found == [0, 1, 2, 3, 4]

    def test_columns_can_be_selected_and_names_are_quoted(self) -> None:
        run(self.uri, "DROP TABLE IF EXISTS odd")
        run(self.uri, 'CREATE TABLE odd ("order" BIGINT, "a b""c" TEXT, more TEXT)')
        run(self.uri, "INSERT INTO odd VALUES (1, 'x', 'y')")
        options = {"uri": self.uri, "table": "odd", "incrementing": "order"}
        source = open_source("postgresql", {**options, "columns": 'order,a b"c'})
        assert source.schema().names == ["order", 'a b"c']


def test_rows_younger_than_the_delay_are_read_later(database: str, table: str) -> None:
    columns = "id BIGINT, at TIMESTAMPTZ, price NUMERIC(8, 2), more JSONB"
    run(database, f"CREATE TABLE {table} ({columns})")
    run(database, f"INSERT INTO {table} VALUES (1, now() - interval '1 hour', 1.50, '{{}}')")
    run(database, f"INSERT INTO {table} VALUES (2, now(), 2.50, '{{}}')")
    options = {"uri": database, "table": table, "incrementing": "at", "delayMs": "600000"}
    source = open_source("postgresql", options)
    (split,) = source.splits({}, source.latest({}))
    rows = [row for batch in source.read(split) for row in batch.to_pylist()]
    assert [(row["id"], row["price"], row["more"]) for row in rows] == [(1, "1.50", "{}")]


@pytest.mark.parametrize("key", ["", "id"])
class TestPostgresqlSink(SinkChecks):
    @pytest.fixture(autouse=True)
    def _table(self, database: str, table: str, key: str) -> None:
        self.uri, self.table, self.key = database, table, key

    def sink(self) -> Sink:
        options = {"uri": self.uri, "table": self.table}
        return open_sink("postgresql", {**options, "key": self.key} if self.key else options)

    def written(self) -> int:
        return int(select(self.uri, f"SELECT count(*) FROM {self.table}")[0][0])


def test_rows_with_a_key_are_replaced_and_deleted(database: str, table: str) -> None:
    sink = open_sink("postgresql", {"uri": database, "table": table, "key": "id"})
    rows = pa.RecordBatch.from_pydict(
        {
            "id": pa.array([1, 2, 1, 3, 3], pa.int64()),
            "name": ["a", "b", "c", "d", None],
            DELETED: [False, None, False, False, True],
        }
    )
    sink.prepare(rows.schema)
    sink.write(BatchIdentity(query_id="q", batch_id=0, partition=0), iter([rows]))
    assert select(database, f"SELECT id, name FROM {table} ORDER BY id") == [(1, "c"), (2, "b")]
    gone = rows.slice(4, 1).set_column(0, "id", pa.array([2], pa.int64()))
    sink.write(BatchIdentity(query_id="q", batch_id=1, partition=0), iter([gone]))
    assert select(database, f"SELECT id, name FROM {table}") == [(1, "c")]


@pytest.mark.parametrize("fails", [False, True])
def test_only_one_of_two_concurrent_attempts_at_a_part_writes(
    database: str, table: str, fails: bool
) -> None:
    """Spark may speculate, or consider a live executor lost."""
    rows = pa.RecordBatch.from_pydict({"id": pa.array(range(5), pa.int64())})
    open_sink("postgresql", {"uri": database, "table": table}).prepare(rows.schema)
    part = BatchIdentity(query_id="q", batch_id=7, partition=3)
    has_begun, may_go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows
        has_begun.set()
        assert may_go_on.wait(TIMEOUT_S)
        if fails:
            raise LookupError("the first attempt breaks off")

    def attempt(batches: Iterator[pa.RecordBatch]) -> int:
        sink = open_sink("postgresql", {"uri": database, "table": table})
        return sink.write(part, batches)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(attempt, slow())
        assert has_begun.wait(TIMEOUT_S)
        second = pool.submit(attempt, iter([rows]))
        until_s = time.monotonic() + TIMEOUT_S
        while not second.done() and not waiting(database):
            assert time.monotonic() < until_s
        may_go_on.set()
        if fails:
            assert isinstance(first.exception(TIMEOUT_S), LookupError)
        else:
            assert first.result(TIMEOUT_S) == 5
        assert second.result(TIMEOUT_S) == (5 if fails else 0)
    assert select(database, f"SELECT count(*) FROM {table}") == [(5,)]


def waiting(uri: str) -> int:
    """Number of sessions that wait for a lock."""
    counted = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return int(select(uri, counted)[0][0])


def test_unsupported_columns_are_rejected_before_anything_is_written(database: str) -> None:
    sink = open_sink("postgresql", {"uri": database, "table": "tea", "key": "nothing"})
    with pytest.raises(WrongColumns, match="the key column nothing is not among"):
        sink.prepare(pa.schema([("id", pa.int64())]))
    plain = open_sink("postgresql", {"uri": database, "table": "tea"})
    with pytest.raises(WrongColumns, match="has no SQL type"):
        plain.prepare(pa.schema([("id", pa.list_(pa.int64()))]))


def write_file(path: Path, rows: pa.Table) -> None:
    match path.suffix:
        case ".parquet":
            pq.write_table(rows, path)
        case ".csv":
            pyarrow.csv.write_csv(rows, path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
class TestFilesSource(SourceChecks):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, kind: str) -> None:
        self.folder, self.kind, self.next = tmp_path, kind, 0
        (tmp_path / f".unfinished.{kind}").write_text("not yet")

    def source(self) -> Source:
        options = {"path": str(self.folder), "format": self.kind, "maxFilesPerTrigger": "1"}
        return open_source("files", options)

    def add(self, count: int) -> None:
        """All in one file, since where it ends is where a position is."""
        numbers = range(self.next, self.next + count)
        rows = pa.table({"id": list(numbers), "name": [f"row {number}" for number in numbers]})
        unfinished = self.folder / f"_{self.next}.{self.kind}"
        write_file(unfinished, rows)
        unfinished.rename(self.folder / f"{self.next}.{self.kind}")
        self.next += count


class FolderWithAClock(FilesSource):
    """A directory with controlled ctimes, which cannot be set on a real file."""

    def __init__(self, *files: tuple[int, str]) -> None:
        super().__init__({"path": "nowhere"})
        self.files = list(files)

    def _files(self) -> list[FolderFile]:
        return [
            FolderFile(name=name, size_bytes=1, written_ns=7, changed_ns=changed_ns)
            for changed_ns, name in sorted(self.files)
        ]


@pytest.mark.parametrize("later_ns", [1, 0, -1, -(10**9), -(10**18)])
def test_new_file_is_read_if_the_clock_stood_still_or_was_set_back(later_ns: int) -> None:
    noon_ns = 1_700_000_000_000_000_000
    folder = FolderWithAClock((noon_ns, "b"))
    first = folder.latest({})
    folder.files.append((noon_ns + later_ns, "a"))
    second = folder.latest(first)
    # A repeated batch is the same, whatever was added meanwhile.
    assert folder.splits({}, first) == [{"name": "b"}]
    assert folder.splits(first, second) == [{"name": "a"}]
    assert folder.latest(second) == second


@pytest.mark.parametrize("seen", [{}, {"seen": {"c": 2}}])
def test_position_of_an_earlier_version_is_understood(seen: dict[str, object]) -> None:
    folder = FolderWithAClock((1, "a"), (2, "b"), (2, "c"), (3, "a2"))
    former = {"changed_ns": 2, "name": "b", **seen}
    read = [{"name": name} for name in ("a", "b", "c")[: 3 if seen else 2]]
    assert folder.splits({}, former) == read
    now = folder.latest(former)
    new = [{"name": name} for name in ("c", "a2")[1 if seen else 0 :]]
    assert folder.splits(former, now) == new
    # Files that were identified by their time get marks.
    folder.files.append((1, "0"))
    assert folder.splits(now, folder.latest(now)) == [{"name": "0"}]


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("json", "no json\n", "is not a json file: JSON parse error"),
        ("parquet", "PAR1", "is not a parquet file: Parquet"),
        ("parquet", "", "is not a parquet file: Parquet"),
        ("json", "", "no file with rows"),
    ],
)
def test_unreadable_file_is_named_in_the_error(
    kind: str, text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text(text)
    with pytest.raises(HeadwaterError, match=reason):
        open_source("files", {"path": str(tmp_path), "format": kind}).schema()


def test_broken_file_is_reported_and_an_empty_one_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text('{"a": 1}\n')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "broken.json").write_text('{"a": 1}\n{"a":')
    source = open_source("files", {"path": str(tmp_path), "format": "json"})
    assert not list(source.read({"name": "empty.json"}))
    with pytest.raises(UnreadableFile, match=r"broken\.json is not a json file"):
        list(source.read({"name": "broken.json"}))


def test_changed_permissions_do_not_cause_a_file_to_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('{"a": 1}\n')
    source = open_source("files", {"path": str(tmp_path), "format": "json"})
    end = source.latest({})
    path.chmod(0o600)
    (tmp_path / "link.json").hardlink_to(path)
    assert source.splits(end, source.latest(end)) == [{"name": "link.json"}]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
class TestFilesSink(SinkChecks):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, kind: str) -> None:
        self.folder, self.kind = tmp_path / "made", kind

    def sink(self) -> Sink:
        return open_sink("files", {"path": str(self.folder), "format": self.kind})

    def written(self) -> int:
        source = open_source("files", {"path": str(self.folder), "format": self.kind})
        return sum(
            batch.num_rows
            for split in source.splits({}, source.latest({}))
            for batch in source.read(split)
        )


def test_connectors_are_found_by_name() -> None:
    assert {"postgresql", "files"} <= set(known(SOURCES))
    assert {"postgresql", "files"} <= set(known(SINKS))
    with pytest.raises(
        InvalidOption, match="unknown connector postgres; installed: files, postgresql"
    ):
        open_source("postgres", {})


@pytest.mark.parametrize(
    ("uri", "reason"),
    [("oracle:x", "uri must start with"), ("postgresql://x:secret@127.0.0.1:1/x", "refused")],
)
def test_connection_error_does_not_contain_the_password(uri: str, reason: str) -> None:
    source = open_source("postgresql", {"uri": uri, "table": "t", "incrementing": "id"})
    with pytest.raises(HeadwaterError, match=reason) as told:
        source.schema()
    assert "secret" not in str(told.value)
