"""Connectors: import rows from external systems, and export topics as rows.

    from headwater.connect import Sink, Source

Start with `connector`. A connector reads and writes Arrow batches and reports its position; it is
independent of topics and Spark. `import_export` connects it to a topic.
"""

from headwater.connect.connector import Part, Position, Sink, Source, Split

__all__ = ["Part", "Position", "Sink", "Source", "Split"]
