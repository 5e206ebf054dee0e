"""Group and offset APIs, and FindCoordinator.

Start with `group_requests`: it authorizes requests and passes them to the coordinator shard.
"""
