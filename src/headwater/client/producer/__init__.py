"""The producer, blocking and for asyncio.

Start with `producer_core` and `record_accumulator`, then `sender`.
`transactions` has idempotence and transactions, `tables` Arrow input.
"""
