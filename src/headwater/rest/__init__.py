"""REST API over Kafka, compatible with Confluent's REST Proxy (v2 and v3).

Start with `rest_process`, then `server` and the route tables in `v2` and `v3`. `formats` converts
between JSON and record bytes, `consumer_instances` has the consumers that clients create.
"""
