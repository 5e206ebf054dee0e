"""The two queries of the demo: orders and payments to revenue, and revenue to Parquet.

Note: the watermark is not how late a payment may be; that is the join's own limit. It is how far
out of order records may arrive, and must cover what is sent at once, because a batch may see the
end of one partition before that of another.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions

from demo.shop import PAY_WITHIN_S, WINDOW_S
from headwater.spark import write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
REVENUE: Final = "revenue"

ORDER: Final = "value struct<order_id: bigint, tea: string, cents: bigint, at: timestamp>"
PAYMENT: Final = "value struct<order_id: bigint, at: timestamp>"
CELL: Final = "value struct<start: timestamp, tea: string, orders: bigint, cents: bigint>"

_OUT_OF_ORDER: Final = "30 seconds"
_EVERY: Final = {"processingTime": "500 milliseconds"}


def start_revenue(spark: "SparkSession", brokers: str, folder: Path) -> "StreamingQuery":
    """Sum the orders that were paid in time by window and tea, exactly once into a topic."""
    orders = (
        stream(spark, brokers, ORDERS, ORDER).select("value.*").withWatermark("at", _OUT_OF_ORDER)
    )
    payments = (
        stream(spark, brokers, PAYMENTS, PAYMENT)
        .select(
            functions.col("value.order_id").alias("paid_id"),
            functions.col("value.at").alias("paid_at"),
        )
        .withWatermark("paid_at", _OUT_OF_ORDER)
    )
    paid = orders.join(
        payments,
        functions.expr(
            "order_id = paid_id and paid_at >= at "
            f"and paid_at <= at + interval {PAY_WITHIN_S} seconds"
        ),
    )
    revenue = paid.groupBy(functions.window("at", f"{WINDOW_S} seconds"), "tea").agg(
        functions.count("*").alias("orders"), functions.sum("cents").alias("cents")
    )
    rows = revenue.select(
        functions.col("tea").alias("key"),
        functions.struct(
            functions.col("window.start").alias("start"), "tea", "orders", "cents"
        ).alias("value"),
    )
    return write_stream(
        rows,
        bootstrap_servers=brokers,
        topic=REVENUE,
        checkpoint=folder / "checkpoint-revenue",
        name="revenue",
        trigger=_EVERY,
        options={"valueFormat": "json"},
    )


def start_parquet(
    spark: "SparkSession", brokers: str, folder: Path, target: Path
) -> "StreamingQuery":
    """Write the result topic to Parquet files."""
    return (
        stream(spark, brokers, REVENUE, CELL)
        .select("value.*")
        .writeStream.format("parquet")
        .option("path", str(target))
        .option("checkpointLocation", str(folder / "checkpoint-parquet"))
        .queryName("parquet")
        .trigger(processingTime="500 milliseconds")
        .start()
    )


def stream(spark: "SparkSession", brokers: str, topic: str, schema: str) -> "DataFrame":
    """Read a topic of JSON values from its beginning, read_committed."""
    return (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", brokers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .schema(schema)
        .load()
    )
