"""Settings of transforms, as Kafka Connect names and checks them."""

import pytest

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.field_transforms import path_of
from headwater.spark.transforms.transform_config import (
    is_transform_option,
    read_predicate,
    read_transform,
    read_transforms,
)

PROPERTIES = {
    "transforms": "insert, route",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "shop",
    "transforms.insert.static.value": "north",
    "transforms.insert.predicate": "isOrder",
    "transforms.insert.negate": "true",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "shop[.](.*)",
    "transforms.route.replacement": "$1",
    "predicates": "isOrder",
    "predicates.isOrder.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.isOrder.pattern": "orders",
}


def test_transforms_are_read_in_the_order_of_their_list() -> None:
    insert, route = read_transforms(PROPERTIES)
    assert (insert.name, insert.kind, insert.part, insert.is_negated) == (
        "insert",
        "InsertField",
        "value",
        True,
    )
    assert insert.config == {"static.field": "shop", "static.value": "north"}
    assert insert.predicate is not None
    assert (insert.predicate.kind, insert.predicate.config) == (
        "TopicNameMatches",
        {"pattern": "orders"},
    )
    assert (route.kind, route.part, route.predicate) == ("RegexRouter", None, None)


def test_connector_without_transforms_has_none() -> None:
    assert read_transforms({"topics": "orders"}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"transforms.route.type": "RegexRoute"},
            "transforms.route.type: unknown transform RegexRoute; did you mean RegexRouter?",
        ),
        (
            {"transforms.insert.type": "InsertField"},
            "transforms.insert.type: InsertField works on keys or values: write InsertField$Key or "
            "InsertField$Value",
        ),
        (
            {"transforms.route.type": "RegexRouter$Key"},
            "transforms.route.type: RegexRouter has no $Key: write RegexRouter",
        ),
        (
            {"transforms.route.regexp": "x"},
            "transforms.route.regexp: RegexRouter has no option regexp; did you mean regex?",
        ),
        (
            {"transforms.insert.predicate": "isOther"},
            "transforms.insert.predicate: unknown predicate isOther; there are isOrder",
        ),
        (
            {"transforms.late.type": "Filter"},
            "transforms.late.type is set, but transforms does not list it",
        ),
        ({"transforms": "route,route"}, "transforms has a name twice: route,route"),
        (
            {"predicates.isOrder.type": "RecordIsTombstone"},
            "predicates.isOrder.pattern: RecordIsTombstone has no option pattern",
        ),
        ({"transforms": "insert,route,cast"}, "transforms.cast.type: a transform needs a type"),
    ],
)
def test_wrong_properties_are_refused_with_their_name(
    changes: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_transforms({**PROPERTIES, **changes})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "option", "text"),
    [
        ({"type": "RegexRouter", "regex": "(", "replacement": "x"}, "regex", "not a regular"),
        ({"type": "RegexRouter", "regex": "x"}, None, "needs the option replacement"),
        ({"type": "Cast$Value", "spec": "id:int"}, "spec", "not int"),
        ({"type": "Cast$Value", "spec": "id:int8,int8"}, "spec", "whole value"),
        ({"type": "ReplaceField$Value", "renames": "a"}, "renames", "old:new"),
        ({"type": "InsertField$Key", "static.field": "a"}, None, "are set together"),
        ({"type": "InsertField$Key"}, None, "inserts nothing"),
        ({"type": "TimestampConverter$Value", "target.type": "string"}, None, "needs a format"),
        ({"type": "TimestampConverter$Value", "target.type": "Time"}, "target.type", "no Time"),
        (
            {"type": "TimestampConverter$Value", "target.type": "unix", "format": "YYYY"},
            "format",
            "has YYYY, which Spark formats differently",
        ),
        ({"type": "TimestampRouter", "timestamp.format": "yyyy'w"}, "timestamp.format", "quote"),
        ({"type": "MaskField$Key", "fields": "id", "replacement": ""}, "replacement", "empty"),
        ({"type": "Filter", "negate": "maybe"}, "negate", "true or false"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], option: str | None, text: str) -> None:
    _, problems = read_transform("t", given, {})
    assert [(name, text in reason) for name, reason in problems] == [(option, True)]


def test_java_only_regular_expression_is_accepted() -> None:
    given = {"type": "TopicNameMatches", "pattern": r"\p{Alpha}+&&[a-z]"}
    assert read_predicate("isWord", given)[1] == []


def test_only_options_of_transforms_are_recognized() -> None:
    names = ["transforms", "transforms.a.type", "Predicates.p.type", "transformsets", "table"]
    assert [is_transform_option(each) for each in names] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("a.`b.c`", ["a", "b.c"]),
    ],
)
def test_path_keeps_dots_in_backticks(text: str, path: list[str]) -> None:
    assert path_of(text) == path
