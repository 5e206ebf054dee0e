"""A user's program: copies a topic in upper case, exactly once, and ends.

    python copy_program.py MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT [CONF ...]

A MASTER of `-` is left to `spark-submit`.
"""

import sys

from headwater.spark import session, write_stream

master, bootstrap, source, target, checkpoint, *settings = sys.argv[1:]
conf = dict(each.split("=", 1) for each in settings)
spark = session(None if master == "-" else master, conf, app_name="copy")
records = (
    spark.readStream.format("headwater")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .load()
)
query = write_stream(
    records.selectExpr("key", "upper(cast(value as string)) as value"),
    bootstrap_servers=bootstrap,
    topic=target,
    checkpoint=checkpoint,
    trigger={"availableNow": True},
)
query.awaitTermination()
print("copied")
spark.stop()
