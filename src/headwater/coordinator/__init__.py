"""Group and transaction coordinators: state machines over internal topics.

Start with `runtime.coordinator_shard` (the interface of a state machine) and its runtime, then
`group` and `transaction`. `records` has the records of the internal topics.
"""
