"""Runs coordinator shards: loading, events, appends, replies, timers.

Start with `coordinator_runtime` (all shards of a topic) and `coordinator_context` (one shard).
`coordinator_effects` lists what a shard hears and what it can order.
"""
