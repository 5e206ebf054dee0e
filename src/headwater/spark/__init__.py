"""Spark: topics as a source and a sink of queries, and sessions configured for it.

    from headwater.spark import session

    spark = session()
    orders = spark.readStream.format("headwater").option("subscribe", "orders")...

Start with `data_source`. Only this package and those above it import pyspark, and they import it
late: planning is tested without it.
"""

from typing import TYPE_CHECKING, Any

from headwater.spark.spark_session import register, session

if TYPE_CHECKING:
    from headwater.spark.formats.avro.from_avro import from_avro
    from headwater.spark.group_offset_commits import commit_progress
    from headwater.spark.sink.write_stream import write_stream

__all__ = ["commit_progress", "from_avro", "register", "session", "write_stream"]


def __getattr__(name: str) -> Any:
    """What needs pyspark to be imported is imported when it is asked for."""
    if name == "commit_progress":
        from headwater.spark.group_offset_commits import commit_progress

        return commit_progress
    if name == "from_avro":
        from headwater.spark.formats.avro.from_avro import from_avro

        return from_avro
    if name == "write_stream":
        from headwater.spark.sink.write_stream import write_stream

        return write_stream
    raise AttributeError(name)
