"""Headwater: Kafka, implemented in Python.

Importing the package loads nothing but this line of text: every room is imported
by whoever needs it, so a broker never pays for Arrow and a client never for Spark.
"""

__version__ = "0.1.0"
