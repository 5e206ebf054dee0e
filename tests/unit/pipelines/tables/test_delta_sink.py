"""The statement that merges changes into a table of Delta."""

from headwater.pipelines.spec.pipeline_spec import SinkSpec, TableSpec
from headwater.pipelines.tables.delta_sink import merge_statement, target_of


def test_columns_are_set_by_name() -> None:
    assert merge_statement("delta.`/lake/t`", ["id", "a b"], ("id",)) == (
        "MERGE INTO delta.`/lake/t` t USING headwater_changes s ON t.`id` <=> s.`id` "
        "WHEN MATCHED AND s.__headwater_deleted THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`id` = s.`id`, t.`a b` = s.`a b` "
        "WHEN NOT MATCHED AND NOT s.__headwater_deleted "
        "THEN INSERT (`id`, `a b`) VALUES (s.`id`, s.`a b`)"
    )


def test_a_table_is_named_by_its_path_or_its_name() -> None:
    sink = SinkSpec(name="s", place=(), source="x", format="delta", options={"path": "/lake/t"})
    assert target_of(sink) == "delta.`/lake/t`"
    named = SinkSpec(name="s", place=(), source="x", table=TableSpec(name="sales.orders"))
    assert target_of(named) == "`sales`.`orders`"
