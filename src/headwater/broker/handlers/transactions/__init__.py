"""Transaction APIs, InitProducerId and DescribeProducers.

Start with `transaction_requests`: it authorizes requests and passes them to the coordinator shard.
"""
