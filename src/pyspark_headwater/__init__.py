"""Let Spark find `format("headwater")`: it imports packages `pyspark_*`."""

from headwater.spark.installation import check_spark_version

check_spark_version()

# After the check: on an older PySpark this import fails with a name that tells a user nothing.
from headwater.spark.data_source import HeadwaterSource as DefaultSource  # noqa: E402

__all__ = ["DefaultSource"]
