"""The step of payments.yaml that SQL has no words for."""

from pyspark.sql import DataFrame


def unique(payments: DataFrame) -> DataFrame:
    return payments.dropDuplicatesWithinWatermark(["id"])
