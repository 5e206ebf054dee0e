"""Schemas, read without Spark."""

import pytest

from headwater.pipelines.spec.ddl import BadSchema, DdlField, read_schema


def test_a_schema_is_names_and_types() -> None:
    assert read_schema("id LONG, `odd name` decimal(10, 2) NOT NULL COMMENT 'so, it is'") == (
        DdlField(name="id", kind="bigint"),
        DdlField(name="odd name", kind="decimal(10,2)"),
    )


def test_types_may_be_nested() -> None:
    (field,) = read_schema("who: struct<name: string, tags: array<map<string, int>>>")
    assert field == DdlField(
        name="who",
        kind="struct<name:string,tags:array<map<string,int>>>",
        fields=(
            DdlField(name="name", kind="string"),
            DdlField(name="tags", kind="array<map<string,int>>"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the name of a column is expected and not the end"),
        ("id", "a type is expected and not the end"),
        ("id bigin", "a type is expected and not 'bigin'"),
        ("id int,", "the name of a column is expected"),
        ("id int name string", "a comma or the end is expected and not 'name'"),
        ("tags array<int", "> is expected and not the end"),
        ("pay map<int>", ", is expected and not '>'"),
        ("d decimal(50,2)", "there is no decimal(50,2)"),
        ("d decimal(5,6)", "there is no decimal(5,6)"),
        ("v varchar", "( is expected"),
        ("id int, ID string", "the column id is twice"),
    ],
)
def test_what_spark_could_not_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadSchema) as refused:
        read_schema(text)
    assert reason in str(refused.value)
