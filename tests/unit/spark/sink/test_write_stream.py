"""What is refused before a stream is written."""

from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.write_stream import is_remote, topic_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "teas", "delivery": "exactly-once"}


class FrameOfConnect:
    """As far as it is looked at here."""

    schema = StructType([StructField("value", BinaryType())])


FrameOfConnect.__module__ = "pyspark.sql.connect.dataframe"


def test_updates_through_spark_connect_are_not_promised_to_be_exactly_once() -> None:
    frame = FrameOfConnect()
    assert is_remote(frame)
    with pytest.raises(InvalidOption, match="Spark Connect"):
        topic_writer(cast("DataFrame", frame), OPTIONS, "update")
