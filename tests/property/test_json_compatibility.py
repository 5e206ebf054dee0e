"""An independent validator accepts what the compatibility check accepts."""

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema.canonical_form import canonical, normalized
from headwater.schemas.json_schema.compatibility import narrowed
from headwater.schemas.json_schema.parser import parse_json, read_tree
from headwater.schemas.json_schema.schema import Target
from tests.property.json_schemas import Schema, documents, edited, likely, modern

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_generous = settings(max_examples=150, deadline=None, suppress_health_check=_SLOW)


def tree(schema: Schema) -> Target:
    return read_tree(parse_json(json.dumps(schema)), {})


@_generous
@given(
    documents().flatmap(lambda schema: st.tuples(st.just(schema), edited(schema))),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_values_of_the_old_schema_are_valid_under_a_compatible_new_one(
    pair: tuple[Schema, Schema], is_forward: bool, is_modern: bool, data: st.DataObject
) -> None:
    old, new = reversed(pair) if is_forward else pair
    written = [modern(each) if is_modern else each for each in (old, new)]
    try:
        trees = [tree(each) for each in written]
    except InvalidSchema:
        assume(False)
    is_fine = not narrowed(old=trees[0], new=trees[1])
    event(f"{'compatible' if is_fine else 'not'}{' the same' if old == new else ''}")
    assume(is_fine and old != new)
    before, after = (_validator(each, is_modern=is_modern) for each in written)
    for value in data.draw(st.lists(likely(old, old), min_size=12, max_size=12)):
        if before.is_valid(value):
            event("a value")
            assert after.is_valid(value), (value, written)


@_generous
@given(documents(), st.booleans())
def test_every_schema_is_compatible_with_itself(schema: Schema, is_modern: bool) -> None:
    written = modern(schema) if is_modern else schema
    try:
        trees = [tree(written) for _ in range(2)]
    except InvalidSchema:
        assume(False)
    assert narrowed(old=trees[0], new=trees[1]) == []


@_generous
@given(documents())
def test_canonical_texts_are_stable_and_equivalent(schema: Schema) -> None:
    document = parse_json(json.dumps(schema, indent=3))
    for write in (canonical, normalized):
        text = write(document)
        assert write(parse_json(text)) == text
        assert parse_json(text) == document


def _validator(schema: Schema, *, is_modern: bool) -> Any:
    kind = jsonschema.Draft202012Validator if is_modern else jsonschema.Draft7Validator
    return kind(schema)
