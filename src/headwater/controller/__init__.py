"""The elected controller: elections, ISR changes, reassignment, topic changes.

Start with `controller` and `leader_election` (elects leaders and shrinks ISRs).
`deferred_event_queue` orders the decisions, `controller_channel_manager` sends them to brokers.
"""
