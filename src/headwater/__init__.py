"""Headwater: Apache Kafka implemented in Python.

Importing this package loads nothing else: each package is imported where it is needed, so a broker
never loads Arrow and a client never loads Spark.
"""

__version__ = "0.1.0"
