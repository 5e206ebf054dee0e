"""Delayed operations: produce with acks=all, and the timer for every deadline.

Start with `delayed_produce`; `timer` expires whatever waits in the broker. Delayed fetches are in
`broker.handlers.data.delayed_fetch`.
"""
