"""Groups and transactions as state machines over internal topics, hosted by one runtime."""
