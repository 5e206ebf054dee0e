"""What is refused before a stream is written."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.write_stream import is_remote, topic_writer, write_stream

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


def test_a_local_checkpoint_is_refused_with_a_remote_master() -> None:
    context = SimpleNamespace(master="spark://m:7077")
    frame = SimpleNamespace(isStreaming=True, sparkSession=SimpleNamespace(sparkContext=context))
    with pytest.raises(InvalidOption, match="/ck is a folder of this machine"):
        write_stream(
            cast("DataFrame", frame), bootstrap_servers="b:1", topic="teas", checkpoint="/ck"
        )
