"""Fetched records as Arrow tables, with copied values or views of the receive buffer."""

import pytest

from headwater.client.consumer.fetch.arrow_tables import SCHEMA, VIEWS_SCHEMA, table_of
from headwater.client.consumer.fetch.completed_fetch import CompletedFetch, Reading
from headwater.client.consumer.fetch.fetch_collector import unpack
from headwater.common.ids import TopicPartition
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec
from headwater.records.record import Record

VALUES = [b"", b"x" * 12, b"y" * 13, None, b"z" * 5_000, b"short"]


def fetched(*codecs: Codec, at: int = 0) -> CompletedFetch:
    """A batch of all values for each codec."""
    batches = [
        build_batch(
            [Record(key=b"k", value=value, timestamp=7) for value in VALUES],
            base_offset=len(VALUES) * number,
            codec=codec,
        )
        for number, codec in enumerate(codecs)
    ]
    answer = memoryview(bytearray(b"".join(batches)))
    return CompletedFetch(
        TopicPartition("tea", 3), 1, answer, fetch_offset=at, aborted=(), reading=Reading()
    )


@pytest.mark.parametrize("at", [0, 2, 8])
@pytest.mark.parametrize(
    "codecs",
    [[Codec.NONE] * 3, [Codec.NONE, Codec.ZSTD, Codec.NONE, Codec.LZ4, Codec.GZIP]],
    ids=["plain", "mixed"],
)
def test_views_have_the_same_values(codecs: list[Codec], at: int) -> None:
    copied = table_of(unpack([fetched(*codecs, at=at)]).rows)
    views = table_of(unpack([fetched(*codecs, at=at)], views=True).rows, views=True)
    views.validate(full=True)
    assert views.schema == VIEWS_SCHEMA
    assert copied.schema == SCHEMA
    assert views["value"].to_pylist() == (VALUES * len(codecs))[at:]
    assert views.cast(SCHEMA) == copied


def test_views_of_an_uncompressed_batch_share_the_receive_buffer() -> None:
    answer = bytearray(build_batch([Record(value=b"a" * 100, timestamp=1)]))
    data = CompletedFetch(
        TopicPartition("tea", 0),
        1,
        memoryview(answer),
        fetch_offset=0,
        aborted=(),
        reading=Reading(),
    )
    table = table_of(unpack([data], views=True).rows, views=True)
    # Written only to show that the memory is shared.
    answer[answer.index(b"a" * 100) + 50] = ord("b")
    assert table["value"].to_pylist() == [b"a" * 50 + b"b" + b"a" * 49]


def test_rows_decoded_before_become_views_of_their_column() -> None:
    data = fetched(Codec.NONE, Codec.NONE)
    first = data.take(1)
    assert first is not None
    table = table_of(unpack([data], views=True).rows, views=True)
    assert table["value"].to_pylist() == (VALUES * 2)[1:]
    assert table.schema == VIEWS_SCHEMA


@pytest.mark.parametrize("views", [False, True])
def test_an_empty_table_has_the_same_schema(views: bool) -> None:
    table = table_of([], views=views)
    assert (table.num_rows, table.schema) == (0, VIEWS_SCHEMA if views else SCHEMA)
