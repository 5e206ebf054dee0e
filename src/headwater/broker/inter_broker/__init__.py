"""The client for other brokers: channels, requests, reconnects, liveness.

Start with `client`, which implements `metadata.ports.inter_broker_client`, and `channel`
(one connection and its backoff). `liveness` notices that another broker's process ended.
"""
