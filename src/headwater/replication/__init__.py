"""Replication: partitions, leaders, followers, the ISR and the high watermark.

Start with `replica_manager` (all partitions) and `partition` (one of them), then `leader_state` and
`follower_state`. `replica_fetcher` copies from a leader.
"""
