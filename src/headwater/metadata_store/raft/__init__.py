"""Files of the metadata quorum beside its log: `quorum-state` and snapshots.

Start with `quorum_state_store`, then `snapshot_files`. The log itself is not here yet, and no
broker uses these modules.
"""
