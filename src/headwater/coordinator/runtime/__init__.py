"""Runs coordinator shards: loading, events, appends, replies, timers.

Start with `coordinator_runtime` (all shards of a topic) and `coordinator_context` (one shard).
`coordinator_effects` lists the events and effects of a shard.
"""
