"""Interfaces that metadata, controller and replication need from other layers.

`metadata_store` stores the cluster's metadata, `inter_broker_client` sends requests to other
brokers, `liveness` notices that a broker's process has ended.
"""
