"""Connectors: data outside of Kafka as rows for topics, and topics as rows.

    from headwater.connect import Sink, Source

Start with `connector`. A connector reads and writes Arrow batches and reports its position; it
knows nothing of topics and Spark. `import_export` connects it to a topic.
"""

from headwater.connect.connector import Part, Position, Sink, Source, Split

__all__ = ["Part", "Position", "Sink", "Source", "Split"]
