"""KRaft: the metadata quorum, a pure state machine (org.apache.kafka.raft).

Events go in, effects come out in the order in which the shell must carry them out. Start with
`kafka_raft_client`, then `quorum_state` and `leader_state`; `replicated_log` is the port to the
log. Its shells are `headwater.metadata_store.raft` and `headwater.broker.controller_server`.
"""
