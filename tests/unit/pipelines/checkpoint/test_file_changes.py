"""Which changes of a pipeline's file its checkpoint survives."""

import json
from pathlib import Path

import pytest

from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.checkpoint.checkpoint_storage import LocalStorage
from headwater.pipelines.checkpoint.file_changes import (
    Checkpoints,
    Effect,
    changes,
    described,
    file_changes,
    refuse_incompatible,
    write_description,
)
from headwater.pipelines.spec.document import InvalidPipeline
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from tests.unit.pipelines.pipeline_files import written

BEFORE = """\
version: 1
name: shop
bootstrap: b:1
checkpoint: ./ck
session: {conf: {spark.sql.shuffle.partitions: "2"}}
sources:
  orders:
    subscribe: orders
    startingOffsets: earliest
    decode: {value: {json: "id bigint, at timestamp"}}
    watermark: {at: 10 minutes}
  paid: {subscribe: paid}
steps:
  counts:
    sql: select id, count(*) as n from orders where id > 0 group by id
  both: {sql: "select o.id from orders o join paid p on o.id = p.offset"}
sinks:
  - {name: counts, from: counts, topic: counts, mode: update, key: id}
  - {name: both, from: both, topic: both}
  - {name: copy, from: paid, topic: copy}
  - {name: lake, from: paid, format: parquet, path: /lake}
"""
CHECKPOINTS = Checkpoints(
    started=frozenset({"counts", "both", "copy", "lake"}), with_state=frozenset({"counts", "both"})
)
SPARK = "spark.sql.shuffle.partitions"


def spec_of(folder: Path, text: str) -> PipelineSpec:
    _, spec, problems = read_file(written(folder, text))
    assert problems == []
    return spec


def effects(folder: Path, old: str, new: str) -> dict[str, Effect]:
    """By sink the gravest effect of a change."""
    assert old in BEFORE
    before = json.loads(json.dumps(described(spec_of(folder, BEFORE))))
    found: dict[str, Effect] = {}
    order = list(Effect)
    for each in changes(before, spec_of(folder, BEFORE.replace(old, new, 1)), CHECKPOINTS):
        former = found.get(each.sink, Effect.KEEPS)
        found[each.sink] = max(former, each.effect, key=order.index)
    return found


KEEPS, MAY, BREAKS = Effect.KEEPS, Effect.MAY_BREAK, Effect.BREAKS


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version: 1", "version: 1 # the same", {}),
        ("select id, count(*)", "SELECT id,  count( * )", {}),
        ("earliest", "latest", {"counts": KEEPS, "both": KEEPS}),
        ("where id > 0", "where id > 7 and id < 9", {"counts": KEEPS}),
        ("group by id", "group by id, 1", {"counts": BREAKS}),
        ("on o.id = p.offset", "on o.id = p.partition", {"both": BREAKS}),
        ("10 minutes", "20 minutes", {"counts": KEEPS, "both": KEEPS}),
        ("    watermark: {at: 10 minutes}\n", "", {"counts": BREAKS, "both": BREAKS}),
        ("id bigint, at", "id bigint, no int, at", {"counts": MAY, "both": MAY}),
        ("orders o join paid p", "paid p join orders o", {"both": BREAKS}),
        ("mode: update, key: id", "key: id", {"counts": BREAKS}),
        (
            "subscribe: paid",
            "subscribe: 'paid,more'",
            {"both": KEEPS, "copy": KEEPS, "lake": KEEPS},
        ),
        ("subscribe: paid", "subscribe: more", {"both": BREAKS, "copy": BREAKS, "lake": BREAKS}),
        (
            "subscribe: paid",
            "subscribe: paid, minPartitions: 8",
            {"both": MAY, "copy": MAY, "lake": MAY},
        ),
        ("topic: copy", "topic: other", {"copy": KEEPS}),
        ("path: /lake", "path: /sea", {"lake": BREAKS}),
        ("topic: copy", "format: parquet, path: /p", {"copy": BREAKS}),
        ("from: paid, topic: copy", "from: orders, topic: copy", {"copy": BREAKS}),
        ("name: copy", "name: copies", {"copy": KEEPS, "copies": KEEPS}),
        (f'{SPARK}: "2"', f'{SPARK}: "9"', {"counts": KEEPS, "both": KEEPS}),
        (
            f'{SPARK}: "2"',
            "spark.sql.streaming.stateStore.providerClass: x",
            {"counts": BREAKS, "both": BREAKS},
        ),
        ("b:1", "c:1", dict.fromkeys(("counts", "both", "copy", "lake"), MAY)),
    ],
)
def test_changes(tmp_path: Path, old: str, new: str, expected: dict[str, Effect]) -> None:
    assert effects(tmp_path, old, new) == expected


def test_a_changed_python_step_may_break_state(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def count(orders): return orders\n")
    text = BEFORE.replace(
        "sql: select id, count(*) as n from orders where id > 0 group by id",
        'python: "jobs.py:count"\n    inputs: [orders]',
    )
    before = described(spec_of(tmp_path, text))
    (tmp_path / "jobs.py").write_text("def count(orders): return orders.distinct()\n")
    (change,) = changes(before, spec_of(tmp_path, text), CHECKPOINTS)
    assert (change.sink, change.effect) == ("counts", Effect.MAY_BREAK)


def test_secrets_are_not_stored(tmp_path: Path) -> None:
    text = BEFORE.replace(
        "subscribe: paid", "subscribe: paid, kafka.sasl.password: hush, kafka.sasl.username: me"
    )
    stored = json.dumps(described(spec_of(tmp_path, text)))
    assert "hush" not in stored
    assert "sasl" not in stored


def test_a_run_refuses_an_incompatible_file_with_its_line(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "ck")
    spec = spec_of(tmp_path, BEFORE)
    assert file_changes(storage, spec) is None
    write_description(storage, spec)
    changed = spec_of(tmp_path, BEFORE.replace("path: /lake", "path: /sea"))
    # No batch was planned yet, so there is nothing to lose.
    refuse_incompatible(storage, changed)
    storage.write("shop/lake/offsets/0", "v1")
    with pytest.raises(InvalidPipeline) as error:
        refuse_incompatible(storage, changed)
    assert str(error.value) == (
        f"{tmp_path}/pipeline.yaml:21: lake: it writes to /sea instead of /lake, where the log of "
        "its files is missing: needs a new checkpoint"
    )


def test_the_order_of_sources_matters_without_state_too(tmp_path: Path) -> None:
    """Offsets are stored by the position of their source."""
    text = BEFORE.replace(
        "select o.id from orders o join paid p on o.id = p.offset",
        "select id from orders union all select offset from paid",
    )
    before = described(spec_of(tmp_path, text))
    turned = text.replace(
        "select id from orders union all select offset from paid",
        "select offset from paid union all select id from orders",
    )
    stateless = Checkpoints(started=frozenset({"both"}))
    found = list(changes(before, spec_of(tmp_path, turned), stateless))
    assert [(each.text, each.effect) for each in found if each.sink == "both"] == [
        ("it reads paid, orders instead of orders, paid", Effect.BREAKS)
    ]
