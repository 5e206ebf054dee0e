"""Settings that all connectors share, under Kafka Connect's names."""

import pytest

from headwater.connect.connector_properties import (
    ErrorTolerance,
    read_connector_properties,
)
from headwater.spark.exceptions import InvalidOption

SINK = {
    "path": "out",
    "transforms": "mask",
    "transforms.mask.type": "MaskField$Value",
    "transforms.mask.fields": "card",
    "errors.tolerance": "ALL",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "orders.dlq",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def test_properties_are_divided_by_what_reads_them() -> None:
    found = read_connector_properties(SINK, is_sink=True)
    assert found.options == {"path": "out"}
    assert [str(each) for each in found.transforms] == ["mask (MaskField$Value)"]
    assert found.errors == ErrorTolerance(
        is_tolerant=True,
        logs=True,
        dead_letter_topic="orders.dlq",
        replication_factor=1,
        has_context_headers=True,
    )
    assert not found.is_plain


def test_connector_without_such_properties_is_plain() -> None:
    found = read_connector_properties({"path": "in", "format": "csv"}, is_sink=False)
    assert (found.options, found.errors) == ({"path": "in", "format": "csv"}, ErrorTolerance())
    assert found.is_plain


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"errors.tolerance": "some"}, "errors.tolerance must be none or all, not some"),
        (
            {"errors.deadletterqueue.topic.name": "dlq"},
            "errors.deadletterqueue.topic.name needs errors.tolerance=all: ",
        ),
        (
            {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "a b"},
            "errors.deadletterqueue.topic.name: ",
        ),
        (
            {"errors.tolerence": "all"},
            "a connector has no option errors.tolerence; did you mean errors.tolerance?",
        ),
        (
            {"errors.retry.timeout": "5"},
            "errors.retry.timeout is not supported: Spark tries each task four times",
        ),
        ({"errors.log.enable": "yes"}, "errors.log.enable must be true or false, not yes"),
        (
            {"errors.deadletterqueue.topic.replication.factor": "0"},
            "errors.deadletterqueue.topic.replication.factor must be a positive number or -1",
        ),
    ],
)
def test_wrong_error_settings_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_connector_properties(given, is_sink=True)
    assert str(caught.value).startswith(message)


def test_dead_letters_of_an_import_are_refused() -> None:
    given = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq"}
    with pytest.raises(InvalidOption, match="is for exports"):
        read_connector_properties(given, is_sink=False)
