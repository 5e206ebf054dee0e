"""Replicas of this broker's partitions: leaders, followers, ISR, high watermark.

Start with `replica_manager` (all partitions) and `partition` (one of them), then `leader_state`
and `follower_state`. `replica_fetcher` copies from a leader.
"""
