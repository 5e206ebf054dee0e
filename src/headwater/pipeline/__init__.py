"""Spark: topics as a source and a sink of its queries, and sessions that are set up for it.

    from headwater.pipeline import session

    spark = session()
    orders = spark.readStream.format("headwater").option("subscribe", "orders")...

The only room that may import pyspark, and it does so late: planning is tested without it.
"""

from typing import TYPE_CHECKING, Any

from headwater.pipeline.jobs.python_document import pipeline
from headwater.pipeline.spark_session import register, session

if TYPE_CHECKING:
    from headwater.pipeline.avro.spark_columns import from_avro
    from headwater.pipeline.progress import commit_progress
    from headwater.pipeline.stream_writing import write_stream

__all__ = ["commit_progress", "from_avro", "pipeline", "register", "session", "write_stream"]


def __getattr__(name: str) -> Any:
    """What needs pyspark to be imported is imported when it is asked for."""
    if name == "commit_progress":
        from headwater.pipeline.progress import commit_progress

        return commit_progress
    if name == "from_avro":
        from headwater.pipeline.avro.spark_columns import from_avro

        return from_avro
    if name == "write_stream":
        from headwater.pipeline.stream_writing import write_stream

        return write_stream
    raise AttributeError(name)
