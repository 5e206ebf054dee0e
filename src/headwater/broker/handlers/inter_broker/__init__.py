"""Inter-broker APIs: LeaderAndIsr, UpdateMetadata, AlterPartition, Envelope.

The controller's side is in `headwater.controller`, the broker's in `metadata.metadata_cache`.
"""
