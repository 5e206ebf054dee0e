"""Tables of a data lake: Delta through its jar, Iceberg through PyIceberg.

Start with `delta_sink` and `iceberg_sink`; `merged_changes` is what both do with a change feed.
"""
