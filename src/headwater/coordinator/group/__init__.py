"""The group coordinator: groups of both protocols, and committed offsets.

Start with `group_coordinator_shard`; `group` is the interface that all kinds of groups share.
`offset_commit` and `offset_fetch` serve the offset APIs.
"""
