"""Records of `__consumer_offsets` and `__transaction_state`.

Start with `record_serde`; the other modules have Kafka's key and value types.
"""
