"""The consumer, blocking and for asyncio.

Start with `consumer_core`, which both share; `fetch` and `group` are its two halves.
`subscription_state` tracks positions without I/O.
"""
