"""The metadata quorum on disk, and the driver of a replica.

Start with `kafka_raft_log` and `raft_driver`; `storage_formatter` prepares the directories of a new
node. No broker uses these modules yet.
"""
