"""Queries over topics of a real broker."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import headwater.sql
from headwater.client import Producer
from headwater.client.schema_registry import SchemaRegistry
from headwater.sql import QueryCancelled, QueryError, QueryProgress, SqlSession
from headwater.sql.topic_scan import FIRST_FETCH_BYTES
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.unit.sql.conftest import BASE_MS, ORDERS, PARTITIONS, REGISTERED, create, produce

Rows = list[dict[str, Any]]


def test_a_topic_of_json_has_columns_of_its_records(session: SqlSession, orders: Rows) -> None:
    result = session.sql("select * from orders where id = 5")
    assert result.columns[:5] == ["_partition", "_offset", "_timestamp", "_key", "_headers"]
    (row,) = result.arrow().to_pylist()
    wanted = {**orders[5], "_headers": []}
    assert row.pop("_timestamp").timestamp() * 1_000 == wanted.pop("_timestamp")
    assert row == wanted


def test_a_result_becomes_pandas_polars_and_tuples(session: SqlSession) -> None:
    query = "select kind, sum(grams)::int as grams from orders group by kind order by kind"
    wanted = session.sql(query).arrow().to_pylist()
    assert len(wanted) == 4
    assert session.sql(query).pandas().to_dict("records") == wanted
    assert session.sql(query).polars().to_dicts() == wanted
    assert session.sql(query).rows() == [tuple(each.values()) for each in wanted]


def test_parameters_are_values(session: SqlSession) -> None:
    query = "select count(*) from orders where kind = ? and _offset < ?"
    assert session.sql(query, ["green", 10]).rows() == [(10,)]
    assert session.sql("select $kind", {"kind": "'x"}).rows() == [("'x",)]


# What is read.


def all_bytes(session: SqlSession) -> int:
    result = session.sql("select count(*) from orders")
    assert result.rows() == [(ORDERS,)]
    return result.statistics.bytes_read


def test_offsets_bound_the_bytes_that_are_read(session: SqlSession) -> None:
    result = session.sql("select count(*) from orders where _offset between 1000 and 1009")
    assert result.rows() == [(10 * PARTITIONS,)]
    assert result.statistics.bytes_read <= PARTITIONS * FIRST_FETCH_BYTES
    assert result.statistics.records_read == 10 * PARTITIONS
    one = session.sql("select count(*) from orders where _offset < 10 and _partition in (1)")
    assert one.rows() == [(10,)]
    assert one.statistics.bytes_read <= FIRST_FETCH_BYTES
    assert all_bytes(session) > 5 * PARTITIONS * FIRST_FETCH_BYTES


def test_a_time_bounds_the_bytes_that_are_read(session: SqlSession) -> None:
    first_ms = BASE_MS + 1_000 * (ORDERS - 100)
    query = f"select count(*) from orders where _timestamp >= to_timestamp({first_ms} / 1000.0)"
    result = session.sql(query)
    assert result.rows() == [(100,)]
    assert result.statistics.bytes_read <= PARTITIONS * FIRST_FETCH_BYTES
    assert result.statistics.records_read == 100


def test_an_upper_time_reads_all_if_records_may_be_late(session: SqlSession) -> None:
    query = f"select count(*) from orders where _timestamp < to_timestamp({BASE_MS} / 1000 + 100)"
    result = session.sql(query)
    assert result.rows() == [(100,)]
    assert result.statistics.bytes_read == all_bytes(session)


@pytest.mark.usefixtures("orders")
def test_an_upper_time_ends_reading_with_bounded_lateness(broker: EmbeddedBroker) -> None:
    query = f"select count(*) from orders where _timestamp < to_timestamp({BASE_MS} / 1000 + 100)"
    with headwater.sql.connect(broker.bootstrap_servers, max_lateness_ms=10_000) as session:
        result = session.sql(query)
        assert result.rows() == [(100,)]
        assert result.statistics.records_read == 110
        assert result.statistics.bytes_read <= PARTITIONS * FIRST_FETCH_BYTES


def test_an_upper_time_ends_reading_with_log_append_time(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "appended", 1, message_timestamp_type="LogAppendTime")
    produce(broker, "appended", *(b"early" for _ in range(50)))
    (last,) = session.sql("select max(_timestamp)::varchar from appended").rows()[0]
    threading.Event().wait(0.01)
    produce(broker, "appended", *(b"late" for _ in range(50)))
    result = session.sql(f"select count(*) from appended where _timestamp <= '{last}'")
    assert result.rows() == [(50,)]
    assert result.statistics.records_read == 50


def test_a_limit_ends_reading(session: SqlSession) -> None:
    result = session.sql("select id from orders limit 5")
    assert len(result.rows()) == 5
    result.close()
    assert result.statistics.bytes_read < all_bytes(session) / 2


def test_only_columns_of_the_query_are_decoded(session: SqlSession, orders: Rows) -> None:
    result = session.sql("select sum(grams) from orders where kind = 'green'")
    wanted = sum(each["grams"] for each in orders if each["kind"] == "green")
    assert result.rows() == [(wanted,)]
    (scan,) = result.scans
    assert scan.columns == ("grams",)
    assert scan.predicate == '(kind == "green")'


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{file}'",
        "create table copied as select 1",
        "select 1; select 2",
        "set memory_limit = '2GB'",
    ],
)
def test_explain_runs_nothing_but_a_query(
    session: SqlSession, statement: str, tmp_path: Path
) -> None:
    file = tmp_path / "copied.csv"
    with pytest.raises(QueryError, match="only a single query can be explained"):
        session.explain(statement.format(file=file))
    assert not file.exists()
    assert "copied" not in str(session.sql("select table_name from duckdb_tables()").rows())


@pytest.mark.parametrize(
    "statement",
    [
        "install httpfs",
        "load parquet",
        "update extensions",
        "set autoinstall_known_extensions = true",
        "select 1; set global extension_directory = '.'",
    ],
)
def test_statements_about_extensions_are_rejected(session: SqlSession, statement: str) -> None:
    with pytest.raises(QueryError, match=r"^extensions of DuckDB can be neither installed nor"):
        session.sql(statement)


@pytest.mark.parametrize(
    ("query", "extension"),
    [
        ("select * from 'https://127.0.0.1/orders.csv'", "httpfs"),
        ("attach 'orders.sqlite' (type sqlite)", "sqlite_scanner"),
        ("select * from sqlite_scan('a', 'b')", "sqlite_scanner"),
    ],
)
def test_a_query_that_needs_an_extension_is_not_advised_to_install_it(
    session: SqlSession, query: str, extension: str
) -> None:
    with pytest.raises(QueryError) as caught:
        session.sql(query).rows()
    assert str(caught.value).splitlines()[0] == (
        f"this needs DuckDB's extension {extension}; "
        "extensions of DuckDB can be neither installed nor loaded"
    )


def test_explain_reads_no_records(session: SqlSession) -> None:
    text = session.explain("select id from orders where _offset < 10 and _partition = 2")
    assert "orders: 10 of 12,000 offsets in 1 of 4 partitions" in text
    assert "partition 2: 0-9" in text
    assert "pushed down: " in text


def test_records_of_open_and_aborted_transactions_are_not_rows(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "paid", 1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "till"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for value, is_committed in ((b"no", False), (b"yes", True)):
            producer.begin_transaction()
            producer.send("paid", value=value)
            producer.flush()
            producer.commit_transaction() if is_committed else producer.abort_transaction()
        producer.begin_transaction()
        producer.send("paid", value=b"open")
        producer.flush()
        assert session.sql("select value from paid").rows() == [("yes",)]
        producer.abort_transaction()


# Formats.


@pytest.mark.parametrize("chosen", REGISTERED)
def test_types_come_from_the_registry(
    broker: EmbeddedBroker, registry: EmbeddedRegistry, chosen: str
) -> None:
    topic = f"teas-{chosen}"
    create(broker, topic, 1)
    with SchemaRegistry(registry.url) as client:
        serializer = REGISTERED[chosen](client, topic)
        rows: Rows = [{"kind": f"tea{each}", "grams": each} for each in range(1, 50)]
        if chosen == "avro":
            rows = [{**each, "picked": 19_000} for each in rows]
        produce(broker, topic, *rows, b"\x00bad", value_serializer=_or_bytes(serializer))
    with headwater.sql.connect(broker.bootstrap_servers, registry=registry.url) as session:
        assert session.table(topic).value.format.lower().replace(" ", "-") == chosen
        result = session.sql(f'select kind, grams from "{topic}" order by grams')
        assert result.rows() == [(row["kind"], row["grams"]) for row in rows] + [(None, None)]
        assert result.statistics.misfit_count == 1
        assert session.sql(f'select sum(grams)::int from "{topic}"').rows() == [(1225,)]


def _or_bytes(serializer: Any) -> Any:
    return lambda value: value if isinstance(value, bytes) else serializer(value)


def test_text_and_bytes_are_one_column(broker: EmbeddedBroker, session: SqlSession) -> None:
    create(broker, "words", 1)
    produce(broker, "words", "grün".encode(), None)
    assert session.sql("select value from words").rows() == [("grün",), (None,)]
    create(broker, "blobs", 1)
    produce(broker, "blobs", b"\xff\x00")
    assert session.sql("select value from blobs").rows() == [(b"\xff\x00",)]


@pytest.mark.usefixtures("orders")
def test_a_format_that_is_named_wins(broker: EmbeddedBroker) -> None:
    formats = {"orders": "text"}
    with headwater.sql.connect(broker.bootstrap_servers, value_formats=formats) as session:
        (row,) = session.sql("select value from orders where _partition = 1 limit 1").rows()
        assert json.loads(row[0])["id"] == 1
    with pytest.raises(QueryError, match="'xml' is not a format"):
        headwater.sql.connect(broker.bootstrap_servers, value_formats="xml")


def test_fields_that_would_hide_columns_get_other_names(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "clash", 1)
    produce(broker, "clash", b'{"_offset": "mine", "id": 1, "ID": 2}')
    assert session.sql("select _offset, _offset_1, id, id_1 from clash").rows() == [
        (0, "mine", 1, 2)
    ]


# Records that do not fit.


def test_records_that_do_not_fit_are_counted_and_shown(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "mostly", 1)
    good = [json.dumps({"id": each}).encode() for each in range(200)]
    later = [b"not json", b'{"id": "text"}', b'["list"]', None, b'{"other": 1}']
    produce(broker, "mostly", *good, *later, *good)
    result = session.sql("select count(*), count(id), sum(id)::int from mostly")
    assert result.rows() == [(405, 400, 39_800)]
    assert result.statistics.misfit_count == 3
    assert [each.offset for each in result.statistics.misfits] == [200, 201, 202]
    (line,) = result.warnings()
    assert line.startswith("3 records do not fit their types and have null there: mostly-0 offset")
    errors = session.sql('select _offset, _part, _value from "mostly$errors"').rows()
    assert errors == [(200 + row, "value", later[row]) for row in range(3)]
    raw = session.sql("select _value from mostly$raw where _offset between 200 and 203").rows()
    assert [each for (each,) in raw] == later[:4]


def test_a_record_that_is_read_twice_is_counted_once(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "twice", 1)
    produce(broker, "twice", b'{"id": 1}', b'{"id": 2}', b"bad")
    result = session.sql("select count(*) from twice a join twice b using (id)")
    assert result.rows() == [(2,)]
    assert result.statistics.misfit_count == 1


def test_a_field_of_several_types_keeps_all_values(
    broker: EmbeddedBroker, session: SqlSession
) -> None:
    create(broker, "several", 1)
    produce(broker, "several", b'{"id": 1}', b'{"id": "x"}', b'{"id": {"a": [null]}}', b"{}")
    assert session.sql("select id from several").rows() == [
        ("1",),
        ('"x"',),
        ('{"a": [null]}',),
        (None,),
    ]


# Errors.


def test_an_unknown_column_is_pointed_at(session: SqlSession) -> None:
    with pytest.raises(QueryError) as failed:
        session.sql("select id,\n  gramms from orders")
    assert str(failed.value).splitlines() == [
        'Referenced column "gramms" not found in FROM clause!',
        "    gramms from orders",
        "    ^^^^^^",
        "  did you mean grams?",
    ]


def test_an_unknown_topic_is_pointed_at(session: SqlSession) -> None:
    with pytest.raises(QueryError) as failed:
        session.sql("select * from orderz")
    assert str(failed.value).splitlines() == [
        "Table with name orderz does not exist!",
        "  select * from orderz",
        "                ^^^^^^",
        "  did you mean orders?",
    ]


def test_a_syntax_error_is_pointed_at(session: SqlSession) -> None:
    with pytest.raises(
        QueryError, match=r'at or near "from"\n  select count\(\* from x\n +\^\^\^\^'
    ):
        session.sql("select count(* from x")


def test_an_error_while_rows_are_read_is_one_of_sql(session: SqlSession) -> None:
    with pytest.raises(QueryError, match="Could not convert string 'green'"):
        session.sql("select kind::int from orders where kind = 'green'").rows()
    assert session.sql("select 1").rows() == [(1,)]


# Sessions.


def test_a_cancelled_query_ends(session: SqlSession) -> None:
    progress = QueryProgress()
    threading.Timer(0.2, progress.cancel).start()
    with pytest.raises(QueryCancelled):
        session.sql(
            "select sum(a.range * b.id) from range(10000000000) a, orders b", progress=progress
        ).rows()
    assert session.sql("select count(*) from orders").rows() == [(ORDERS,)]


def test_tables_of_the_user_hide_topics(session: SqlSession) -> None:
    session.sql("create table small as select id from orders where _offset = 0").rows()
    assert session.sql("select count(*) from small").rows() == [(PARTITIONS,)]
    session.sql("create table orders as select 'mine' as id").rows()
    assert session.sql("select id from orders").rows() == [("mine",)]


def test_topics_are_joined_with_each_other_and_with_files(
    broker: EmbeddedBroker, session: SqlSession, tmp_path: Any
) -> None:
    create(broker, "shop.kinds", 1)
    produce(broker, "shop.kinds", b'{"kind": "green", "label": "Green"}')
    (tmp_path / "prices.csv").write_text("kind,price\ngreen,3\n", encoding="utf-8")
    query = f"""
        select label, c.price, count(*) from orders join shop.kinds using (kind)
        join '{tmp_path}/prices.csv' c using (kind) group by all
    """
    assert session.sql(query).rows() == [("Green", 3, ORDERS // 4)]


def test_python_variables_are_no_tables(session: SqlSession) -> None:
    import pyarrow as pa

    secrets = pa.table({"word": ["secret"]})
    with pytest.raises(QueryError, match="does not exist"):
        session.sql("select * from secrets")
    session.register("secrets", secrets)
    assert session.sql("select * from secrets").rows() == [("secret",)]


@pytest.mark.parametrize(
    "query",
    [
        "select * from '{folder}/x.csv'",
        "copy (select 1) to '{folder}/y.csv'",
        "set enable_external_access = true",
        "install httpfs",
        "load httpfs",
        "attach '{folder}/z.db'",
        "set autoinstall_known_extensions = true",
    ],
)
@pytest.mark.usefixtures("orders")
def test_without_external_access_a_query_reaches_nothing_else(
    broker: EmbeddedBroker, tmp_path: Any, query: str
) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n", encoding="utf-8")
    with headwater.sql.connect(broker.bootstrap_servers, external_access=False) as session:
        with pytest.raises(QueryError):
            session.sql(query.format(folder=tmp_path)).rows()
        assert session.sql("select count(*) from orders").rows() == [(ORDERS,)]
    assert [each.name for each in tmp_path.iterdir()] == ["x.csv"]


def test_a_query_is_followed_by_what_arrives(broker: EmbeddedBroker, session: SqlSession) -> None:
    create(broker, "growing", 2)
    produce(broker, "growing", b'{"id": 1}')
    stop = threading.Event()
    seen: list[tuple[Any, ...]] = []
    results = session.follow("select id from growing", interval_s=0.01, stop=stop)
    arriving = iter([b'{"id": 2}', b'{"id": 3}'])
    produced = threading.Timer(0.3, lambda: produce(broker, "growing", next(arriving)))
    produced.start()
    for result in results:
        seen += result.rows()
        value = next(arriving, None)
        if value is None:
            stop.set()
        else:
            produce(broker, "growing", value)
    assert seen == [(2,), (3,)]


def test_the_package_does_not_load_pyspark() -> None:
    code = "import sys, headwater.sql; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
