"""Pipelines bounded to a range of offsets."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.common.ids import TopicPartition
from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.check.pipeline_check import source_options
from headwater.pipelines.run.bounded_run import Bound, bounded, offset_count
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, Trigger
from headwater.spark.exceptions import InvalidOption
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.source_options import SourceOptions
from tests.unit.pipelines.pipeline_files import GOOD, written
from tests.unit.spark.fake_brokers import FakeBrokers

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FROM_2S = Bound(option="--from", timestamp_ms=2_000)
TO_5S = Bound(option="--to", timestamp_ms=5_000)


def spec_of(folder: Path, text: str = GOOD) -> PipelineSpec:
    _, spec, problems = read_file(written(folder, text))
    assert problems == []
    return spec


class Brokers(FakeBrokers):
    """Ten and three records, a second apart."""

    def __init__(self) -> None:
        super().__init__(orders=[10, 3])

    @contextmanager
    def lookup(self, options: SourceOptions) -> Iterator[OffsetReader]:
        yield OffsetReader(self, options.subscription, latest_if_no_match=True)


def ranges(spec: PipelineSpec) -> dict[TopicPartition, tuple[int, int]]:
    options = source_options(spec.sources[0], spec)
    assert options.until is not None
    return {each: (options.starting.offsets[each], end) for each, end in options.until.items()}


def test_times_become_offsets_and_a_partition_that_ends_earlier_ends_at_its_end(
    tmp_path: Path,
) -> None:
    found = bounded(spec_of(tmp_path), FROM_2S, TO_5S, lookup=Brokers().lookup)
    assert ranges(found) == {P0: (2, 5), P1: (2, 3)}
    assert offset_count(found) == 4


def test_a_bounded_run_has_a_name_of_its_own_and_ends(tmp_path: Path) -> None:
    """Checkpoint, queries, lock and reports follow from the name."""
    spec = spec_of(tmp_path)
    found = bounded(spec, FROM_2S, TO_5S, lookup=Brokers().lookup)
    assert found.name == "orders-to-lake@19700101T000002Z-19700101T000005Z"
    assert found.is_bounded
    assert [each.trigger for each in found.sinks] == [Trigger()]
    assert bounded(spec, FROM_2S, TO_5S, lookup=Brokers().lookup) == found


def test_offsets_are_taken_as_they_are_and_have_a_short_label(tmp_path: Path) -> None:
    start = Bound(option="--from", offsets={P0: 4, P1: -2})
    end = Bound(option="--to", offsets={P0: 7, P1: -1})
    found = bounded(spec_of(tmp_path), start, end, lookup=Brokers().lookup)
    assert ranges(found) == {P0: (4, 7), P1: (0, 3)}
    assert len(found.name) == len("orders-to-lake@") + 8 + 1 + 8
    assert start.label() != end.label()


def test_what_retention_has_removed_is_not_read(tmp_path: Path) -> None:
    brokers = Brokers()
    brokers.logs[P0].start = 6
    start = Bound(option="--from", offsets={P0: 1, P1: 1})
    found = bounded(spec_of(tmp_path), start, TO_5S, lookup=brokers.lookup)
    assert ranges(found) == {P0: (6, 6), P1: (1, 3)}


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ({P0: 1}, "--from says nothing of orders-1; use -1 for latest, -2 for earliest"),
        (
            {P0: 1, P1: 1, TopicPartition("oders", 0): 1},
            "--from names oders-0, which the pipeline does not read",
        ),
    ],
)
def test_offsets_must_name_the_partitions_that_are_read(
    tmp_path: Path, offsets: dict[TopicPartition, int], reason: str
) -> None:
    with pytest.raises(InvalidOption) as error:
        bounded(
            spec_of(tmp_path),
            Bound(option="--from", offsets=offsets),
            TO_5S,
            lookup=Brokers().lookup,
        )
    assert str(error.value) == reason


FILES = """\
name: lake
bootstrap: b:1
sources: {orders: {subscribe: orders, startingTimestamp: 3}}
sinks:
  - {from: orders, format: parquet, path: /lake}
"""


def test_files_of_a_bounded_run_need_a_folder_of_their_own(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, FILES)
    with pytest.raises(InvalidOption, match="name a folder for the files of this run"):
        bounded(spec, FROM_2S, TO_5S, lookup=Brokers().lookup)
    found = bounded(spec, FROM_2S, TO_5S, lookup=Brokers().lookup, output="/other")
    assert found.sinks[0].options["path"] == "/other/orders-to-lake"
    # The starting time of the file does not win over the bound.
    assert json.loads(found.sources[0].options["startingOffsets"]) == {"orders": {"0": 2, "1": 2}}
    assert "startingTimestamp" not in found.sources[0].options


def test_a_source_that_is_no_topic_cannot_be_bounded(tmp_path: Path) -> None:
    text = FILES.replace("{subscribe: orders, startingTimestamp: 3}", "{format: rate}")
    with pytest.raises(InvalidOption, match="the source orders is none"):
        bounded(spec_of(tmp_path, text), FROM_2S, TO_5S, lookup=Brokers().lookup, output="/o")
