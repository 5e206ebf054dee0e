"""Producer ids, sequence numbers and transactions.

Start with `transaction_manager`; `transaction_state` is its state machine.
`partition_sequences` assigns sequence numbers.
"""
