"""Group and offset APIs, and FindCoordinator.

Start with `group_requests`: authorization, and the way to the coordinator shard and back.
"""
