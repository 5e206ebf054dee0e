"""A change feed merged into an Iceberg table by a driver that is killed in each step of a commit.

The driver is a process that does what the sink does for each batch: it writes data files, deletes
the rows of the changed keys and adds the files in one commit, and then notes the batch as finished,
as Spark does in its checkpoint. After each kill a new driver repeats the last unfinished batch.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.pipelines.tables import iceberg_table
from headwater.pipelines.tables.iceberg_table import BatchOfQuery, IcebergTable, writer_of

BATCHES = 10
KEYS = 400
CHANGES = 300
SCHEMA = pa.schema({"key": pa.int64(), "amount": pa.int64()})
# Each is a step of a commit, with the batch in which the driver dies after it.
KILLS = {"files": 1, "delete": 3, "append": 4, "metadata": 6, "catalog": 8}


def changes_of(batch: int) -> dict[int, int | None]:
    """The changes of a batch: new amounts by key, None for a delete."""
    keys = [(batch * 131 + number * 7) % KEYS for number in range(CHANGES)]
    return {key: None if (key + batch) % 5 == 0 else batch * 1_000 + key for key in keys}


def merged() -> dict[int, int]:
    """The rows that plain Python has after all batches."""
    rows: dict[int, int | None] = {}
    for batch in range(BATCHES):
        rows |= changes_of(batch)
    return {key: amount for key, amount in rows.items() if amount is not None}


def table_in(folder: Path) -> IcebergTable:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    return IcebergTable(name="lake.changes", catalog=catalog)


def run_driver(folder: Path, kill_after: str) -> None:
    """Merge the batches that are not noted as finished. Runs in a process of its own."""
    table = table_in(folder)
    table.prepare(SCHEMA)
    for number in range(finished(folder), BATCHES):
        is_last = KILLS.get(kill_after) == number
        changes = changes_of(number)
        kept = {key: amount for key, amount in changes.items() if amount is not None}
        columns = {"key": list(kept), "amount": list(kept.values())}
        files = writer_of(table.load())(pa.table(columns).cast(SCHEMA))
        if is_last:
            _die_after(kill_after)
        keys = pa.table({"key": list(changes)}).cast(pa.schema([SCHEMA.field("key")]))
        table.commit(BatchOfQuery(query_id="q", batch_id=number), files, keys=keys)
        if is_last and kill_after == "catalog":
            _die()
        (folder / f"finished-{number}").touch()


def finished(folder: Path) -> int:
    return len(list(folder.glob("finished-*")))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_after(step: str) -> None:
    """Arrange that this process is killed after a step of the next commit."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Transaction

    match step:
        case "files":
            _die()
        case "delete":
            _kill_after(iceberg_table, "_delete")
        case "append":
            setattr(Transaction, "commit_transaction", lambda _: _die())  # noqa: B010
        case "metadata":
            # The new metadata file is written, and the catalog does not name it yet.
            _kill_after(SqlCatalog, "_write_metadata")


def _kill_after(place: Any, name: str) -> None:
    """Replace a function of a module, or a static method of a class."""
    call = getattr(place, name)

    def done(*arguments: Any, **named: Any) -> None:
        call(*arguments, **named)
        _die()

    setattr(place, name, staticmethod(done) if isinstance(place, type) else done)


def _driver(folder: Path, kill_after: str) -> int:
    program = (
        "import sys; from pathlib import Path; "
        "from tests.unit.pipelines.tables.test_iceberg_kills import run_driver; "
        "run_driver(Path(sys.argv[1]), sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), kill_after],
        cwd=Path(__file__).parents[4],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.slow
def test_a_change_feed_is_merged_once_whichever_step_the_driver_dies_in(tmp_path: Path) -> None:
    for step, batch in KILLS.items():
        assert _driver(tmp_path, step) == -signal.SIGKILL, step
        assert finished(tmp_path) == batch, step
    assert _driver(tmp_path, "") == 0
    table = table_in(tmp_path).load()
    rows = table.scan().to_arrow().to_pylist()
    assert len(rows) == len(merged())
    assert {each["key"]: each["amount"] for each in rows} == merged()
    # The batch whose commit had reached the catalog was found, and not written again.
    summaries = [each.summary for each in table.snapshots() if each.summary is not None]
    added = [each[iceberg_table.BATCH_ID] for each in summaries if each.operation.value == "append"]
    assert added == [str(number) for number in range(BATCHES)]
