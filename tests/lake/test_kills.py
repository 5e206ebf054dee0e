"""A million rows into tables of Delta and Iceberg, while the driver is killed five times.

The driver is the whole process group of `headwater pipeline run`: Python, the JVM and its workers.
It is killed when the table has grown by some commits since it was started, so each run gets
somewhere, and dies at another point of a batch.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.client import Producer
from headwater.pipelines.tables.delta_setup import delta_conf
from headwater.testing import EmbeddedBroker
from tests.lake.conftest import jars_conf
from tests.lake.test_tables import Lake
from tests.spark.pipelines import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = int(os.environ.get("HEADWATER_LAKE_ROWS", "1000000"))
KEYS = ROWS // 10
BATCHES = 16
KILLS = int(os.environ.get("HEADWATER_LAKE_KILLS", "5"))
TIMEOUT_S = 900.0

pytestmark = pytest.mark.timeout(3600)


def _value(number: int) -> dict[str, Any]:
    """Row `number`; as a change, one of ten of its key, of which the last but some deletes."""
    key = number % KEYS
    is_delete = number // KEYS == ROWS // KEYS - 1 and key % 7 == 0
    return {
        "number": number,
        "key": key,
        "amount": number * 31 % 1009,
        "op": "d" if is_delete else "u",
    }


def _fill(broker: EmbeddedBroker, topic: str) -> None:
    make(broker, topic)
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50) as producer:
        for number in range(ROWS):
            row = _value(number)
            producer.send(topic, json.dumps(row).encode(), key=str(row["key"]).encode())


def _file(lake: Lake, topic: str, broker: EmbeddedBroker, more: str) -> Path:
    conf = delta_conf(jars_conf()) if lake.kind == "delta" else {}
    conf["spark.master"] = "local[2,4]"
    file = lake.folder / "pipeline.yaml"
    file.write_text(
        "version: 1\n"
        f"name: {topic}\nbootstrap: {broker.bootstrap_servers}\ncheckpoint: {lake.folder}/ck\n"
        f"session: {{conf: {json.dumps(conf)}}}\n"
        "sources:\n  rows:\n"
        f"    subscribe: {topic}\n    startingOffsets: earliest\n"
        f"    maxOffsetsPerTrigger: {ROWS // BATCHES}\n"
        "    decode: {value: {json: 'number bigint, key bigint, amount bigint, op string'}}\n"
        f"sinks:\n  - {{from: rows, name: sink, {lake.words()}{more}}}\n"
    )
    return file


def _run_with_kills(file: Path, folder: Path, commits: Callable[[], int], kills: int) -> int:
    """Run to the end; return how often the driver was killed."""
    chance = random.Random(7)
    killed = 0
    while True:
        with (folder / "run.log").open("ab") as log:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "headwater",
                    "pipeline",
                    "run",
                    "--once",
                    "--runs",
                    str(folder / "runs"),
                    str(file),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            goal = commits() + chance.randint(1, 2)
            # Somewhere in the next batch, not always right after a commit.
            pause_s = chance.random() * 2
            if killed < kills and _has_grown(child, commits, goal) and _lives_on(child, pause_s):
                killed += 1
                continue
            code = child.wait(TIMEOUT_S)
            assert code == 0, (folder / "run.log").read_text()[-3000:]
            return killed
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _has_grown(child: "subprocess.Popen[bytes]", commits: Callable[[], int], goal: int) -> bool:
    until_s = time.monotonic() + TIMEOUT_S
    while _lives_on(child, 0.2):
        if commits() >= goal:
            return True
        assert time.monotonic() < until_s, "the table does not grow"
    return False


def _lives_on(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _commits(lake: Lake) -> Callable[[], int]:
    def count() -> int:
        # Without asking the catalog, whose tables are not there at first.
        folder = lake.folder / "table" / "_delta_log"
        if lake.kind == "iceberg":
            found = (lake.folder / "warehouse").rglob("*.metadata.json")
            return len(list(found))
        return len(list(folder.glob("*.json")))

    return count


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, spark: "SparkSession") -> Lake:
    return Lake(request.param, tmp_path, spark)


def _sums(lake: Lake) -> tuple[int, int, int]:
    """Rows, and sums that a lost or doubled row would change."""
    if lake.kind == "delta":
        frame = lake.spark.read.format("delta").load(f"{lake.folder}/table")
        found = frame.selectExpr("count(*)", "sum(number)", "sum(number * amount % 999983)").first()
        assert found is not None
        return int(found[0]), int(found[1]), int(found[2])
    from headwater.pipelines.tables.iceberg_table import IcebergTable

    table = IcebergTable(name="lake.orders", catalog=lake.catalog).load().scan().to_arrow()
    return _expected(table.to_pylist())


def _expected(rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    numbers = [each["number"] for each in rows]
    return len(rows), sum(numbers), sum(each["number"] * each["amount"] % 999983 for each in rows)


def test_every_row_is_in_the_table_once(lake: Lake, spark_broker: EmbeddedBroker) -> None:
    topic = f"killed-{lake.kind}"
    _fill(spark_broker, topic)
    file = _file(lake, topic, spark_broker, "")
    killed = _run_with_kills(file, lake.folder, _commits(lake), KILLS)
    assert killed == KILLS
    assert _sums(lake) == _expected([_value(number) for number in range(ROWS)])


def test_a_change_feed_is_merged_through_kills(lake: Lake, spark_broker: EmbeddedBroker) -> None:
    topic = f"killed-merge-{lake.kind}"
    _fill(spark_broker, topic)
    merge = ", merge: {keys: [key], apply_as_deletes: op = 'd', except_column_list: op}"
    file = _file(lake, topic, spark_broker, merge)
    killed = _run_with_kills(file, lake.folder, _commits(lake), KILLS)
    assert killed == KILLS
    last = {_value(number)["key"]: _value(number) for number in range(ROWS)}
    assert _sums(lake) == _expected([each for each in last.values() if each["op"] != "d"])


def test_the_sums_notice_a_lost_and_a_doubled_row() -> None:
    rows = [_value(number) for number in range(1_000)]
    assert _expected(rows) != _expected(rows[1:])
    assert _expected(rows) != _expected([*rows[1:], rows[5]])
