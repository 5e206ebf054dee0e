"""The transaction coordinator: transactional ids, their states, and markers.

Start with `transaction_coordinator_shard` and `transaction_states` (valid transitions).
`pending_markers` tracks the markers that partitions have not confirmed.
"""
