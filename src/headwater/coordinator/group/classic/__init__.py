"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, rebalances.

Start with `classic_group`; `join_group` handles joins, static members included. `classic_rebalance`
moves the group from one generation to the next.
"""
