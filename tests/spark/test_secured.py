"""Spark with a broker and a registry with TLS and authentication, without secrets in options."""

import io
import json
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.client.avro import AvroDeserializer, AvroSerializer
from headwater.client.schema_registry import SchemaRegistry
from headwater.client.serialization.schema_registry_settings import registry_settings
from headwater.common.settings.java_properties import parse_properties
from headwater.connect.import_export import AvroValues, Running, export_rows, import_rows
from headwater.mirror.mirror import Mirror
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.spark_tasks import SparkTasks
from headwater.testing import EmbeddedRegistry
from tests.secured_broker import SECRET, SecuredBroker, secured_broker
from tests.spark.pipelines import run_once
from tests.spark.queries import run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "let-alice-into-the-registry"
TEA = json.dumps(
    {
        "type": "record",
        "name": "Tea",
        "fields": [{"name": "kind", "type": "string"}, {"name": "grams", "type": "int"}],
    }
)
PIPELINE = """\
version: 1
name: light
settings: {file}
sources:
  teas:
    subscribe: {topic}
    startingOffsets: earliest
    decode: {{value: avro}}
steps:
  light: {{sql: "select kind, grams from teas where grams < 100"}}
sinks:
  - from: light
    topic: light-{topic}
    create: {{partitions: 1}}
    key: kind
    encode: {{value: avro}}
    delivery: exactly-once
on_error:
  dead_letter: dead-{topic}
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="module")
def file(secured: SecuredBroker) -> Iterator[Path]:
    """Client settings for the broker and the registry."""
    door = secured.door(alice=PASSWORD)
    with EmbeddedRegistry(secured.servers, door, client_settings=secured.login) as registry:
        yield secured.file(
            schema_registry_url=registry.url, basic_auth_user_info=f"alice:{PASSWORD}"
        )


@pytest.fixture
def topic(secured: SecuredBroker) -> str:
    name = f"teas-{uuid.uuid4().hex[:8]}"
    with Admin(secured.client) as admin:
        admin.create_topic(name, partitions=1)
    return name


@pytest.fixture
def registry(file: Path) -> Iterator[SchemaRegistry]:
    settings = registry_settings(parse_properties(file.read_bytes()))
    with SchemaRegistry(settings=settings) as client:
        yield client


def values(secured: SecuredBroker, topic: str) -> list[bytes]:
    """What a read_committed consumer sees in the one partition."""
    place = TopicPartition(topic, 0)
    reading = {**secured.client, "auto.offset.reset": "earliest"}
    with Consumer({**reading, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        found: list[bytes] = []
        while consumer.position(place) < end:
            found += [each.value or b"" for each in consumer.poll(1.0)]
    return found


def test_pipeline_reads_and_writes_avro_exactly_once_with_a_settings_file(
    spark: "SparkSession",
    secured: SecuredBroker,
    file: Path,
    topic: str,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    to_avro = AvroSerializer(registry, TEA, topic=topic)
    with Producer(secured.client) as producer:
        for kind, grams in (("green", 50), ("black", 500), ("white", 20)):
            producer.send(topic, to_avro({"kind": kind, "grams": grams}))
        producer.send(topic, b"no Avro")
    pipeline = tmp_path / "light.yaml"
    pipeline.write_text(PIPELINE.format(file=file, topic=topic), encoding="utf-8")
    lives = run_once(spark, secured.broker, pipeline, tmp_path / "checkpoint")
    assert [each.error for each in lives] == [None, None]
    from_avro = AvroDeserializer(registry)
    assert [from_avro(each) for each in values(secured, f"light-{topic}")] == [
        {"kind": "green", "grams": 50},
        {"kind": "white", "grams": 20},
    ]
    assert values(secured, f"dead-{topic}") == [b"no Avro"]


@pytest.mark.spark
def test_connectors_import_and_export_with_a_settings_file(
    spark: "SparkSession", secured: SecuredBroker, file: Path, topic: str, tmp_path: Path
) -> None:
    drop, lake = tmp_path / "drop", tmp_path / "lake"
    drop.mkdir()
    (drop / "one.json").write_text('{"kind": "green"}\n{"kind": "white"}\n')
    avro = AvroValues(registry=parse_properties(file.read_bytes())["schema.registry.url"])
    run_to_its_end(
        lambda: import_rows(
            spark,
            "files",
            {"path": str(drop), "format": "json"},
            bootstrap_servers=secured.servers,
            topic=topic,
            running=Running(checkpoint=str(tmp_path / "in")),
            avro=avro,
            settings_file=file,
        )
    )
    run_to_its_end(
        lambda: export_rows(
            spark,
            "files",
            {"path": str(lake), "format": "parquet"},
            bootstrap_servers=secured.servers,
            topic=topic,
            running=Running(checkpoint=str(tmp_path / "out")),
            avro=avro,
            settings_file=file,
        )
    )
    assert set(pq.read_table(lake).column("kind").to_pylist()) == {"green", "white"}


def test_spark_mirrors_between_secured_clusters(
    spark: "SparkSession", secured: SecuredBroker, topic: str
) -> None:
    with Producer(secured.client) as producer:
        producer.send(topic, b"oolong").result(60)
    options = mirror_options(
        secured.servers,
        secured.servers,
        topics=topic,
        delivery="exactly-once",
        source_file=secured.login,
        target_file=secured.login,
    )
    assert Mirror(options, SparkTasks(spark)).run(once=True).records == 1
    assert values(secured, f"source.{topic}") == [b"oolong"]


def test_query_plans_contain_no_secret(
    spark: "SparkSession", secured: SecuredBroker, file: Path, topic: str
) -> None:
    """Neither a secret of a file, nor one that was given as an option."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="admin" password="{SECRET}";'
    by_option = {
        "kafka.bootstrap.servers": secured.servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": secured.ca,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }
    by_file = {"kafka.bootstrap.servers": secured.servers, "settingsFile": str(file)}
    told = io.StringIO()
    for options in (by_file, by_option):
        written = spark.createDataFrame([("green",)], "value string").write.format("headwater")
        written.options(**options, topic=topic).mode("append").save()
        rows = spark.read.format("headwater").options(**options, subscribe=topic).load()
        assert rows.count() > 0
        with redirect_stdout(told):
            rows.explain(extended=True)
    text = told.getvalue() + plans_of(spark)
    assert "AppendData" in text
    assert SECRET not in text
    assert PASSWORD not in text


def plans_of(spark: "SparkSession") -> str:
    """What Spark's UI and event logs contain of recent queries."""
    store: Any = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    return "\n".join(
        f"{each.details()} {each.physicalPlanDescription()}"
        for each in (executions.apply(number) for number in range(executions.size()))
    )
