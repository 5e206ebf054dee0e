"""Spark: topics as a source and a sink of queries, and sessions configured for it.

    from headwater.spark import session

    spark = session()
    orders = spark.readStream.format("headwater").option("subscribe", "orders")...

Start with `data_source`. Only this package and the layers above it import pyspark, and they import
it late: planning is tested without it. Importing the package itself loads no module: Python workers
of Spark start faster.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headwater.spark.formats.avro.from_avro import from_avro
    from headwater.spark.group_offset_commits import commit_progress
    from headwater.spark.sink.write_stream import write_stream
    from headwater.spark.spark_session import register, session

__all__ = ["commit_progress", "from_avro", "register", "session", "write_stream"]

_MODULES: Final = {
    "commit_progress": "headwater.spark.group_offset_commits",
    "from_avro": "headwater.spark.formats.avro.from_avro",
    "register": "headwater.spark.spark_session",
    "session": "headwater.spark.spark_session",
    "write_stream": "headwater.spark.sink.write_stream",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(_MODULES[name]), name)
