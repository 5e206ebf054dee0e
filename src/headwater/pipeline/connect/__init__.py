"""Connectors: what is outside of Kafka, as rows for topics and from topics.

    from headwater.pipeline.connect import Sink, Source

What a reader would get wrong: a connector knows nothing of topics and nothing of Spark. It reads
and writes Arrow batches, and says how far it is; everything else is the same for all of them.
"""

from headwater.pipeline.connect.connector import Part, Position, Sink, Source, Split

__all__ = ["Part", "Position", "Sink", "Source", "Split"]
