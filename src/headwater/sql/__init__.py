"""SQL over topics: DuckDB, fed by our Arrow client.

    import headwater.sql

    with headwater.sql.connect("localhost:9092") as session:
        print(session.sql("select kind, count(*) from orders group by kind").pandas())

Start with `session`. `topic_types` finds the columns of a topic, `topic_reader` answers what DuckDB
asks for, `scan_predicates` derives offsets from predicates, `topic_scan` reads and decodes.

Note: values are decoded by the column readers of `headwater.spark.formats`, which do not need
PySpark.
"""

from headwater.sql.query_progress import MisfitExample, QueryProgress, QueryStatistics
from headwater.sql.query_result import QueryResult
from headwater.sql.session import SqlSession, connect
from headwater.sql.sql_errors import QueryCancelled, QueryError

__all__ = [
    "MisfitExample",
    "QueryCancelled",
    "QueryError",
    "QueryProgress",
    "QueryResult",
    "QueryStatistics",
    "SqlSession",
    "connect",
]
