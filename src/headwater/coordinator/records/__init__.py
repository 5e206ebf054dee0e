"""Records of `__consumer_offsets` and `__transaction_state`, as values and as bytes.

Start with `record_serde`; the other modules have Kafka's key and value types.
"""
