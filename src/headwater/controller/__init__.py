"""The elected controller, as pure code: elections, ISR changes, reassignment, topic changes.

Start with `controller` and `partition_change_builder` (elects leaders and shrinks ISRs).
`deferred_event_queue` orders the decisions, `controller_channel` sends them to brokers.
"""
