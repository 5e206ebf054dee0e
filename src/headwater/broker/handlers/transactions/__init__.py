"""Transaction APIs, InitProducerId and DescribeProducers.

Start with `transaction_requests`: authorization, and the way to the coordinator shard.
"""
