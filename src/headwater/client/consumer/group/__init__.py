"""Group membership of both protocols, heartbeats, and offset commits.

Start with `group_membership`; `classic_member` and `consumer_member` are pure state machines.
`heartbeat_loop` sends their requests.
"""
