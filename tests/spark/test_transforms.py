"""Single message transforms in pipeline files and of connectors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.connect.import_export import Running, export_queries, import_rows
from headwater.pipelines.run.query_state import SinkState
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once, send
from tests.spark.queries import TIMEOUT_S, run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
version: 1
name: transformed
checkpoint: ./ck
sources:
  orders:
    subscribe: transformed-orders
    startingOffsets: earliest
    decode: {value: {json: "id bigint, amount string, item struct<code: string, size: int>"}}
    transforms:
      - {type: Filter, predicate: isDeleted}
      - {type: Flatten$Value, delimiter: _}
      - {type: "Cast$Value", spec: "amount:int32"}
      - {type: InsertField$Value, topic.field: source, offset.field: at}
    predicates:
      isDeleted: {type: RecordIsTombstone}
sinks:
  - from: orders
    topic: transformed-result
    delivery: exactly-once
    trigger: {available_now: true}
    transforms:
      - {type: ValueToKey, fields: id}
      - {type: org.apache.kafka.connect.transforms.ExtractField$Key, field: id}
      - {type: ReplaceField$Value, exclude: id}
      - {type: RegexRouter, regex: ".*-(.*)", replacement: "transformed-$1-2"}
      - {type: InsertHeader, header: origin, value.literal: north}
on_error:
  dead_letter: transformed-dead
"""


def test_pipeline_transforms_records_and_keeps_those_that_fail(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topics = ["orders", "result", "result-2", "dead"]
    make(spark_broker, *(f"transformed-{each}" for each in topics), partitions=1)
    values = [
        json.dumps({"id": 1, "amount": "70", "item": {"code": "x", "size": 3}}),
        None,
        json.dumps({"id": 2, "amount": "many", "item": None}),
        "{",
        json.dumps({"id": 3, "amount": "-5"}),
    ]
    send(spark_broker, "transformed-orders", [("k", each) for each in values], {"trace": b"1"})
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    states = run_once(spark, spark_broker, file, tmp_path / "checkpoint")
    assert [each.state for each in states] == [SinkState.FINISHED] * 2, states

    found = read(spark_broker, "transformed-result-2")
    assert [(each.key, json.loads(each.value or b""), list(each.headers)) for each in found] == [
        (
            b"1",
            {
                "amount": 70,
                "item_code": "x",
                "item_size": 3,
                "source": "transformed-orders",
                "at": 0,
            },
            [("origin", b"north")],
        ),
        (b"3", {"amount": -5, "source": "transformed-orders", "at": 4}, [("origin", b"north")]),
    ]
    assert read(spark_broker, "transformed-result") == []
    dead = [
        (each.key, each.value, dict(each.headers))
        for each in read(spark_broker, "transformed-dead")
    ]
    assert [(key, (value or b"").decode()) for key, value, _ in dead] == [
        (b"k", values[2]),
        (b"k", "{"),
    ]
    reasons = [headers["__headwater.errors.message"] for *_, headers in dead]
    assert reasons[0] == b"Cast$Value (Cast$Value): the value (many) cannot be cast to int32"
    assert reasons[1] is not None
    assert reasons[1].startswith(b"value: ")
    assert [headers["trace"] for *_, headers in dead] == [b"1", b"1"]


def test_connectors_transform_records_and_tolerate_errors(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers = spark_broker.bootstrap_servers
    make(spark_broker, "drop-in", "drop-out", "drop-dead", partitions=1)
    (tmp_path / "in").mkdir()
    lines = ["id,amount,card", "1,5,4000", "2,many,4001", "3,7,4002"]
    (tmp_path / "in" / "a.csv").write_text("\n".join(lines) + "\n")
    transforms = {
        "transforms": "mask,route,key",
        "transforms.mask.type": "MaskField$Value",
        "transforms.mask.fields": "card",
        "transforms.mask.replacement": "9",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)-in",
        "transforms.route.replacement": "$1-out",
        "transforms.key.type": "ValueToKey",
        "transforms.key.fields": "id",
    }
    run_to_its_end(
        lambda: import_rows(
            spark,
            "files",
            {"path": str(tmp_path / "in"), "format": "csv", **transforms},
            bootstrap_servers=servers,
            topic="drop-in",
            running=Running(checkpoint=str(tmp_path / "importing")),
        )
    )
    imported = [(each.key, each.value) for each in read(spark_broker, "drop-out")]
    assert imported == [
        (b'{"id":1}', b'{"id":1,"amount":"5","card":9}'),
        (b'{"id":2}', b'{"id":2,"amount":"many","card":9}'),
        (b'{"id":3}', b'{"id":3,"amount":"7","card":9}'),
    ]

    send(spark_broker, "drop-out", [("broken", "{")], {"trace": b"1"})
    tolerance = {
        "transforms": "cast,drop",
        "transforms.cast.type": "Cast$Value",
        "transforms.cast.spec": "amount:int32",
        "transforms.drop.type": "ReplaceField$Value",
        "transforms.drop.exclude": "card",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": "drop-dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    queries = export_queries(
        spark,
        "files",
        {"path": str(tmp_path / "out"), "format": "json", **tolerance},
        bootstrap_servers=servers,
        topic="drop-out",
        schema="id bigint, amount string, card bigint",
        running=Running(checkpoint=str(tmp_path / "exporting")),
    )
    for query in queries:
        assert query.awaitTermination(TIMEOUT_S)
    written = [
        json.loads(line)
        for file in sorted((tmp_path / "out").glob("*.json"))
        for line in file.read_text().splitlines()
    ]
    assert written == [{"id": 1, "amount": 5}, {"id": 3, "amount": 7}]
    dead = read(spark_broker, "drop-dead")
    assert [(each.key, each.value) for each in dead] == [imported[1], (b"broken", b"{")]
    headers = [dict(each.headers) for each in dead]
    assert headers[0] == {
        "__connect.errors.topic": b"drop-out",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1",
        "__connect.errors.connector.name": b"files",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"TRANSFORMATION",
        "__connect.errors.exception.message": (
            b"cast (Cast$Value): the value (many) cannot be cast to int32"
        ),
    }
    assert headers[1]["trace"] == b"1"
    assert headers[1]["__connect.errors.stage"] == b"VALUE_CONVERTER"
