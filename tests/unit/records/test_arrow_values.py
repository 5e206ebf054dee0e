"""Arrow values created without importing pandas."""

import subprocess
import sys

import pyarrow as pa
import pytest

from headwater.records import arrow_values


def test_values_equal_those_of_pyarrow() -> None:
    assert arrow_values.text("té") == pa.scalar("té")
    assert arrow_values.text("") == pa.scalar("")
    assert arrow_values.binary(b"\x00tea") == pa.scalar(b"\x00tea")
    assert arrow_values.null(pa.string()) == pa.scalar(None, pa.string())
    for kind in (pa.int16(), pa.int32(), pa.int64()):
        assert arrow_values.integer(-7, kind) == pa.scalar(-7, kind)
        assert arrow_values.integers([3, -1], kind) == pa.array([3, -1], kind)
    assert arrow_values.binaries([b"a", b"", b"bc"]) == pa.array([b"a", b"", b"bc"], pa.binary())
    assert arrow_values.binaries([]) == pa.array([], pa.binary())


@pytest.mark.parametrize(
    "program",
    [
        "import headwater.spark.source.readers, headwater.spark.sink.writers",
        "from headwater.records.arrow_columns import partition_column\n"
        "from headwater.records.arrow_values import binaries\n"
        "partition_column(binaries([b'a', b'b']), 7)",
        "from headwater.common.ids import TopicPartition\n"
        "from headwater.spark.source.row_decoder import to_rows\n"
        "from headwater.records.arrow_columns import decode_batches\n"
        "columns = ('key', 'value', 'topic', 'partition', 'timestamp', 'timestampType')\n"
        "make = to_rows(TopicPartition('t', 0), columns, frozenset(), {})\n"
        "make(decode_batches(b''))",
    ],
    ids=["imported", "keys dealt out", "rows made"],
)
def test_spark_worker_does_not_import_pandas(program: str) -> None:
    """If installed, it takes a second or two to import, in every worker."""
    code = f"{program}\nimport sys\nassert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
