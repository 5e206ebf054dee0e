"""What a check finds wrong with the Avro of a pipeline, and in which line."""

from pathlib import Path
from typing import Any

import pytest

from headwater.pipelines.check.avro_check import Registries
from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.check.pipeline_check import check_pipeline
from tests.unit.pipelines.pipeline_files import NoConnectors, written
from tests.unit.spark.formats.avro.fake_registry import FakeRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
GOOD = """\
version: 1
name: orders
bootstrap: 127.0.0.1:9092
registry: http://127.0.0.1:8081
sources:
  orders:
    subscribe: orders
    decode:
      value: avro
    watermark: {at: 10 minutes}
sinks:
  - from: orders
    topic: copied
    key: id
    encode:
      value: avro
"""


def problems(folder: Path, text: str, registries: Registries | None) -> list[str]:
    document, spec, found = read_file(written(folder, text))
    found += check_pipeline(
        document,
        spec,
        connectors=NoConnectors(),
        grammar=None,
        topics=None,
        registries=registries,
    )
    return [f"{each.line}: {each.text}" for each in found]


def test_nothing_is_wrong_with_a_good_pipeline_whether_a_registry_is_asked_or_not(
    tmp_path: Path,
) -> None:
    assert problems(tmp_path, GOOD, None) == []
    assert problems(tmp_path, GOOD, FakeRegistry(orders_value=ORDER)) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("registry: http://127.0.0.1:8081\n", "", 7, "Avro needs a schema registry: set registry"),
        ("subscribe: orders", "subscribe: others", 9, "the registry has no subject others-value"),
        ("subscribe: orders", "subscribe: a,b", 9, "which subject of the registry?"),
        ("watermark: {at:", "watermark: {id:", 10, "id is of type bigint"),
        ("watermark: {at:", "watermark: {when:", 10, "has no column when; it has id, at"),
        (
            "value: avro\n    w",
            "key: {string: id}\n      value: avro\n    w",
            8,
            "comes from the key",
        ),
        ("value: avro\n    w", "value: {avro: {schema: no.avsc}}\n    w", 9, "cannot be read"),
        ("value: avro\n    w", "value: {avro: {shema: x}}\n    w", 9, "did you mean schema?"),
        ("value: avro\n    w", "value: {avro: {strategy: x}}\n    w", 9, "TopicNameStrategy"),
        (
            "value: avro\n    w",
            "value: {avro: {schema: {type: record, name: Order, fields: [{name: x, type: int}]}}}"
            "\n    w",
            9,
            "what orders-value has cannot be read with this schema: value.x is not in",
        ),
        ("      value: avro\n", "      value: json\n", 9, "json"),
        (
            "encode:\n",
            "encode:\n      latest: true\n",
            17,
            "the registry has no subject copied-value",
        ),
        ("encode:\n", "encode:\n      key: avro\n      kye: 1\n", 17, "did you mean key?"),
        (
            "    key: id\n    encode:\n",
            "    encode:\n      key: avro\n",
            15,
            "encode has a key, but",
        ),
    ],
)
def test_a_mistake_is_found_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new), FakeRegistry(orders_value=ORDER))
    assert any(each.startswith(f"{line}: ") and reason in each for each in found), found


def test_incompatible_sink_schema_is_reported_with_the_registrys_message(
    tmp_path: Path,
) -> None:
    registry = FakeRegistry(orders_value=ORDER)
    registry.incompatible = ["READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0"]
    text = GOOD + "        \n"
    text = text.replace(
        "      value: avro\n        \n", '      value: {avro: {schema: "\\"long\\""}}\n'
    )
    [found] = problems(tmp_path, text, registry)
    assert "incompatible with copied-value: READER_FIELD_MISSING_DEFAULT_VALUE" in found


def test_a_schema_that_is_not_to_be_registered_must_be_there(tmp_path: Path) -> None:
    text = GOOD.replace(
        "encode:\n      value: avro",
        'encode:\n      register: false\n      value: {avro: {schema: "\\"long\\""}}',
    )
    [found] = problems(tmp_path, text, FakeRegistry(orders_value=ORDER))
    assert "the subject copied-value has not this schema" in found


def test_unavailable_registry_is_reported_once_per_place(tmp_path: Path) -> None:
    registry = FakeRegistry()
    registry.is_away = True
    found = problems(tmp_path, GOOD, registry)
    assert [each.split(": ")[0] for each in found] == ["9", "16"]
    assert all("the schema registry at 127.0.0.1:1 does not answer" in each for each in found)


def test_a_schema_may_be_a_file_beside_the_pipelines(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "O", "fields": []}')
    text: Any = GOOD.replace("value: avro\n    w", "value: {avro: {schema: order.avsc}}\n    w")
    [found] = problems(tmp_path, text.replace("    watermark: {at: 10 minutes}\n", ""), None)
    assert "the record O, which has no fields" in found
