"""A KRaft controller node: listener, replica of the metadata log, process.

Start with `controller_server`, the composition root. `raft_manager` connects the pure replica in
`headwater.raft` with disk, clock and network; `controller_apis` serves requests.
"""
