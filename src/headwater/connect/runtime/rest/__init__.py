"""The REST API of a Connect worker, with Kafka Connect's paths and answers.

Start with `routes`. `server` speaks HTTP.
"""
