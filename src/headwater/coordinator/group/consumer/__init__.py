"""Consumer groups (KIP-848): heartbeats, targets, reconciliation, migration.

Start with `consumer_group`; `current_assignment_builder` moves a member towards its target.
`group_upgrade` and `group_downgrade` migrate from and to classic groups.
"""
