"""Index files of a segment: offset, time and transaction index.

Start with `offset_index`; `index_file` holds what the offset and time index share (Kafka's
AbstractIndex). `sparse_indexes` maintains both during appends.
"""
