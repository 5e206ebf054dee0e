"""Under which schemas rows are written: made from their types, given, or the registry's newest."""

import json
from typing import Any

import pytest
from pyspark.sql import types

from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import (
    AvroOptions,
    AvroTarget,
    RegistryAccess,
    SubjectNaming,
    known_schemas,
)
from headwater.spark.formats.avro.sink_schema import targets_of
from headwater.spark.formats.avro.spark_schema import record_name, schema_of
from tests.unit.spark.formats.avro.fake_registry import FakeRegistry

ROW = types.StructType(
    [
        types.StructField("id", types.LongType(), nullable=False),
        types.StructField("name", types.StringType()),
    ]
)
FRAME = types.StructType([types.StructField("value", ROW, nullable=False)])
MADE = {
    "type": "record",
    "name": "BigTeas",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ],
}


def target(registry: FakeRegistry, **more: Any) -> AvroTarget:
    options = AvroOptions(part="value", registry=RegistryAccess("http://r"), **more)
    return targets_of(FRAME, {"value": options}, "big-teas", registry.at)["value"]


def test_a_schema_is_made_from_the_columns_and_registered_under_the_topic() -> None:
    registry = FakeRegistry()
    found = target(registry)
    latest = registry.latest("big-teas-value")
    assert latest is not None
    assert found == AvroTarget(latest.id, latest.schema)
    assert json.loads(latest.schema) == MADE


def test_a_schema_that_is_made_keeps_the_name_that_the_subject_has() -> None:
    registry = FakeRegistry(big_teas_value={**MADE, "name": "shop.Tea", "fields": []})
    assert json.loads(target(registry).schema)["name"] == "Tea"
    assert json.loads(target(registry).schema)["namespace"] == "shop"


def test_a_subject_may_be_named_after_the_record() -> None:
    registry = FakeRegistry()
    target(registry, naming=SubjectNaming.RECORD)
    target(registry, naming=SubjectNaming.TOPIC_RECORD)
    target(registry, subject="mine")
    subjects = ("BigTeas", "big-teas-BigTeas", "mine")
    assert all(registry.latest(each) is not None for each in subjects)


def test_the_newest_version_is_used_if_the_columns_fit_it() -> None:
    wide = {**MADE, "fields": [*MADE["fields"], {"name": "n", "type": "int", "default": 1}]}
    assert target(FakeRegistry(big_teas_value=wide), use_latest=True).schema_id == 1
    narrow = {**MADE, "fields": [{"name": "id", "type": "long"}]}
    with pytest.raises(UnsupportedSchema, match="has no field name"):
        target(FakeRegistry(big_teas_value=narrow), use_latest=True)
    with pytest.raises(InvalidOption, match="the registry has no subject big-teas-value"):
        target(FakeRegistry(), use_latest=True)


def test_a_schema_that_may_not_be_registered_must_be_there() -> None:
    with pytest.raises(InvalidOption, match=r"auto\.register\.schemas is false"):
        target(FakeRegistry(), auto_register=False)
    registry = FakeRegistry()
    first = target(registry)
    assert target(registry, auto_register=False) == first


def test_a_query_that_knows_its_schema_asks_no_registry_again() -> None:
    registry = FakeRegistry(big_teas_value=MADE)
    given = {"valueFormat": "avro", "use.latest.version": "true", "valueSubject": "big-teas-value"}
    options = known_schemas(given, {"value": target(registry, use_latest=True)})
    assert "use.latest.version" not in options
    registry.is_away = True
    again = {"schema": options["valueSchema"], "schema_id": int(options["valueSchemaId"])}
    assert target(registry, **again) == AvroTarget(1, options["valueSchema"])


def test_a_column_that_is_not_there_cannot_be_avro() -> None:
    options = {"key": AvroOptions(part="key", registry=RegistryAccess("http://r"))}
    with pytest.raises(InvalidOption, match="there is no column key"):
        targets_of(FRAME, options, "t", FakeRegistry().at)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (types.MapType(types.IntegerType(), types.StringType()), "maps of texts only"),
        (types.StructType([types.StructField("a b", types.LongType())]), "letters, digits and _"),
        (types.DayTimeIntervalType(), "for which Avro has no type"),
    ],
)
def test_types_that_avro_has_not_are_refused(kind: types.DataType, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        schema_of(kind, "R")


def test_records_are_called_after_their_topic() -> None:
    assert record_name("big-orders.v2", is_key=False) == "BigOrdersV2"
    assert record_name("7-up", is_key=True) == "_7UpKey"
    assert record_name(None, is_key=False) == "Row"
