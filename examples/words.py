"""The step of python-step.yaml: lines into words."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def words(lines: DataFrame) -> DataFrame:
    split = f.explode(f.split(f.lower("value"), r"\W+"))
    return lines.select(split.alias("word")).where("word <> ''")
