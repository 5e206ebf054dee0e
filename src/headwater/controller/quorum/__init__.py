"""The active controller of a KRaft cluster.

Start with `quorum_controller`. `cluster_control` decides about brokers, `broker_heartbeat_manager`
keeps their sessions.
"""
