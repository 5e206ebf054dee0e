"""Kafka's wire protocol: encode and decode messages, without I/O.

Start with `codec`, which encodes and decodes requests and responses, and `api_table`. `schema`
declares the fields of a message with the versions they occur in.
"""
