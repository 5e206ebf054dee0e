"""The coordinators of this broker: which shards it leads, markers, producer ids.

Start with `group_coordinator` and `transaction_coordinator`.
`add_partitions_to_txn_manager` verifies transactions for partition leaders (KIP-890).
"""
