"""`headwater sql` prints results and errors as a user expects."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from headwater.client import Admin, NewTopic, Producer
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="teas", partitions=1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number, kind in enumerate(("green", "bl\x1b[31mack", "white")):
                tea = {"kind": kind, "grams": number * 10, "tags": ["a", kind]}
                producer.send("teas", value=json.dumps(tea).encode())
        yield Shell(broker.bootstrap_servers)


def test_a_table_is_printed_without_control_characters(shell: Shell) -> None:
    printed = shell.does("sql", "select kind, grams, null as x from teas order by grams")
    assert [line.split() for line in printed.splitlines()] == [
        ["kind", "grams", "x"],
        ["green", "0", "NULL"],
        [r"bl\x1b[31mack", "10", "NULL"],
        ["white", "20", "NULL"],
    ]


def test_a_table_is_cut_and_says_so(shell: Shell) -> None:
    result = shell.run("sql", "select kind from teas", "--rows", "2")
    assert len(result.stdout.splitlines()) == 3
    assert "The first 2 rows" in result.stderr
    assert len(shell.does("sql", "select kind from teas", "--rows", "0").splitlines()) == 4


def test_the_query_may_come_from_standard_input(shell: Shell) -> None:
    assert "30" in shell.does("sql", given="select sum(grams) from teas")
    assert "there is no query" in shell.run("sql", given=" ").output


def test_json_and_csv_hold_every_type(shell: Shell) -> None:
    query = "select sum(grams) as total, list(kind order by kind) as kinds from teas"
    (row,) = map(json.loads, shell.does("sql", query, "--format", "json").splitlines())
    assert row == {"total": 30, "kinds": ["bl\x1b[31mack", "green", "white"]}
    header, line = shell.does("sql", query, "--format", "csv").splitlines()
    assert header == '"total","kinds"'
    assert line.startswith("30,")


def test_a_file_is_written_whole_or_not_at_all(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "teas.parquet"
    shell.does("sql", "select grams from teas", "--output", str(file))
    assert pyarrow.parquet.read_table(file).column("grams").to_pylist() == [0, 10, 20]
    failed = shell.run("sql", "select kind::int from teas", "--output", str(file))
    assert failed.exit_code == 1
    assert pyarrow.parquet.read_table(file).num_rows == 3
    assert [each.name for each in tmp_path.iterdir()] == ["teas.parquet"]
    unknown = shell.run("sql", "select 1", "--output", str(tmp_path / "teas.xls"))
    assert "does not name a format" in unknown.output


def test_errors_point_at_the_place(shell: Shell) -> None:
    result = shell.run("sql", "select gramms from teas")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        'headwater: Referenced column "gramms" not found in FROM clause!',
        "  select gramms from teas",
        "         ^^^^^^",
        "  did you mean grams?",
    ]


def test_statistics_and_plans_are_printed(shell: Shell) -> None:
    assert "3 records" in shell.run("sql", "select sum(grams) from teas", "--stats").stderr
    one = "select sum(grams) from teas where _offset = 1"
    assert shell.run("sql", one, "--stats").stderr.endswith(", 1 record\n")
    assert "teas: 1 of 3 offsets" in shell.does(
        "sql", "--explain", "select kind from teas where _offset = 1"
    )
