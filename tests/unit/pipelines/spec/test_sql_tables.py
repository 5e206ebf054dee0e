"""Which tables a query reads, told from its text."""

import pytest

from headwater.pipelines.spec.sql_tables import tables_in


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from orders where a > 1", ["orders"]),
        ("SELECT * FROM Orders o JOIN customers c USING (id)", ["Orders", "customers"]),
        ("select 1 from a x, b as y where x.i = y.i", ["a", "b"]),
        ("from orders select id", ["orders"]),
        ("select * from `my table` left join c on true", ["my table", "c"]),
        ("select * from (select * from inner_one) q, two", ["inner_one", "two"]),
        ("select (select max(a) from s2) from s1 group by a, b", ["s2", "s1"]),
        ("select 1 from a union all select 2 from b", ["a", "b"]),
        ("select * from a where id in (select id from b)", ["a", "b"]),
        ("select * from a join a b using (id)", ["a"]),
    ],
)
def test_tables_are_what_follows_from_and_join(sql: str, tables: list[str]) -> None:
    assert tables_in(sql) == tables


@pytest.mark.parametrize(
    "sql",
    [
        "select 'from nowhere' from here",
        "select 1 -- from nowhere\n from here /* join nowhere */",
        "select extract(year from nowhere) from here",
        "select trim(both ' ' from nowhere) from here",
        "select a is distinct from nowhere from here",
        "with nowhere as (select * from here) select * from nowhere",
        "with a (b, c) as (select * from here), d as (select * from a) select * from d",
        "select * from here, range(3)",
        "select * from here join lake.nowhere using (id)",
        "select * from here lateral view explode(tags) nowhere as tag",
        "select * from here order by a, nowhere",
    ],
)
def test_what_only_looks_like_a_table_is_none(sql: str) -> None:
    assert tables_in(sql) == ["here"]
