"""Groups and transactions as state machines over internal topics, hosted by one runtime.

In the making: nothing here is wired to a broker yet.
"""
