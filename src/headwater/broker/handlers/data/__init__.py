"""Produce, Fetch, ListOffsets, Metadata, DeleteRecords and client telemetry.

Start with `produce` and `fetch`; `produce_response` and `delayed_fetch` hold requests that wait.
`follower_fetch` serves followers.
"""
