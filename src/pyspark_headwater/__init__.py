"""Lets Spark find `format("headwater")` by itself: it looks for packages with such a name."""

from headwater.spark.data_source import HeadwaterSource as DefaultSource

__all__ = ["DefaultSource"]
