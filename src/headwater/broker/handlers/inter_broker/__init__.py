"""Requests between brokers: LeaderAndIsr, UpdateMetadata, StopReplica, AlterPartition, Envelope.

The controller's side is in `headwater.controller`, the broker's in `metadata.metadata_cache`.
"""
