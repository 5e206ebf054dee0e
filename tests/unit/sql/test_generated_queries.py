"""Generated queries return the same over a topic and its rows in Parquet."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from headwater.sql import SqlSession
from headwater.testing import EmbeddedBroker
from tests.unit.sql.conftest import BASE_MS, KINDS, PARTITIONS, produce_orders

QUERIES = 200
ROWS = 3_000
TOPIC = "teas"
SEED = 23
GROUPS = ("kind", "_partition", "is_gift", "shop.city", "_key", "grams % 5")
AGGREGATES = (
    "count(*)",
    "count(price)",
    "sum(grams)",
    "min(id)",
    "max(_offset)",
    "min(_timestamp)",
    "round(sum(price), 3)",
    "sum(len(tags))",
    "max(note)",
    "count(distinct shop.floor)",
)
COLUMNS = (
    "_partition",
    "_offset",
    "_timestamp",
    "_key",
    "id",
    "kind",
    "grams",
    "price",
    "is_gift",
    "note",
    "shop",
    "tags",
)


class Generator:
    """Random queries over a table with the columns of `orders`; `{t}` is its name."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def query(self) -> str:
        rng = self._rng
        shape = rng.randrange(6)
        where = f" where {self._predicate(3)}" if rng.random() < 0.85 else ""
        if shape <= 2:
            groups = ", ".join(rng.sample(GROUPS, rng.randrange(3)))
            chosen = ", ".join(rng.sample(AGGREGATES, rng.randrange(1, 4)))
            grouped = f" group by {groups}" if groups else ""
            return f"select {', '.join(filter(None, [groups, chosen]))} from {{t}}{where}{grouped}"
        if shape == 3:
            chosen = ", ".join(rng.sample(COLUMNS, rng.randrange(1, 5)))
            limit = f" limit {rng.randrange(1, 50)}" if rng.random() < 0.5 else ""
            return f"select {chosen} from {{t}}{where} order by id{limit}"
        if shape == 4:
            return (
                "select a.kind, count(*), sum(b.grams) from {t} a join {t} b on a.id = b.id + 1"
                f" where {self._predicate(1, 'a.')} and {self._predicate(1, 'b.')} group by a.kind"
            )
        return (
            f"select id, row_number() over (partition by kind order by id) from {{t}}{where}"
            f" qualify row_number() over (partition by kind order by id) <= 3"
        )

    def _predicate(self, depth: int, prefix: str = "") -> str:
        rng = self._rng
        if depth and rng.random() < 0.6:
            one, other = self._predicate(depth - 1, prefix), self._predicate(depth - 1, prefix)
            return rng.choice([f"({one} and {other})", f"({one} or {other})", f"not ({one})"])
        per_partition = ROWS // PARTITIONS
        second = BASE_MS // 1_000 + rng.randrange(ROWS)
        choices = [
            f"{prefix}_offset {self._operator()} {rng.randrange(per_partition)}",
            f"{prefix}_offset between {rng.randrange(per_partition)} and {per_partition}",
            f"{prefix}_offset in ({rng.randrange(per_partition)}, {rng.randrange(per_partition)})",
            f"{prefix}_partition {self._operator()} {rng.randrange(PARTITIONS)}",
            f"{prefix}_partition in (0, {rng.randrange(PARTITIONS)})",
            f"{prefix}_timestamp {self._operator()} to_timestamp({second})",
            f"{prefix}kind {self._operator()} '{rng.choice(KINDS)}'",
            f"{prefix}kind in ('green', '{rng.choice(KINDS)}')",
            f"{prefix}price {self._operator()} {rng.randrange(ROWS) / 8}",
            f"{prefix}price is null",
            f"{prefix}is_gift",
            f"{prefix}shop.city = 'city{rng.randrange(7)}'",
            f"{prefix}note like 'xxx%'",
            f"{prefix}grams + 1 {self._operator()} {rng.randrange(97)}",
            f"{prefix}_key = 'k{rng.randrange(13)}'",
            f"list_contains({prefix}tags, 't{rng.randrange(4)}')",
        ]
        return rng.choice(choices)

    def _operator(self) -> str:
        return self._rng.choice(["=", "<>", "<", "<=", ">", ">="])


@pytest.fixture(scope="module")
def parquet(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The rows as they were produced, not as they were read."""
    rows = produce_orders(broker, TOPIC, ROWS)
    struct: Any = pa.struct
    fields: Any = {
        "_partition": pa.int32(),
        "_offset": pa.int64(),
        "_timestamp": pa.timestamp("ms", tz="UTC"),
        "_key": pa.string(),
        "id": pa.int64(),
        "kind": pa.string(),
        "grams": pa.int64(),
        "price": pa.float64(),
        "is_gift": pa.bool_(),
        "note": pa.string(),
        "shop": struct({"city": pa.string(), "floor": pa.int64()}),
        "tags": pa.list_(pa.string()),
    }
    file = tmp_path_factory.mktemp("parquet") / "orders.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields)), file)
    yield file
    file.unlink()


def test_results_equal_those_over_parquet(session: SqlSession, parquet: Path) -> None:
    generator = Generator(SEED)
    all_rows = 0
    with duckdb.connect(":memory:") as reference:
        for _ in range(QUERIES):
            query = generator.query()
            wanted = reference.sql(query.format(t=f"'{parquet}'")).to_arrow_table()
            found = session.sql(query.format(t=TOPIC)).arrow()
            assert lines(found) == lines(wanted), query
            all_rows += found.num_rows
    assert all_rows > QUERIES


def lines(table: Any) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))
