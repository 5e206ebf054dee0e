"""A KRaft controller node: its listener, its replica of the metadata log, its process.

Start with `controller_server`, the composition root. `raft_manager` connects the pure replica in
`headwater.raft` with disk, clock and network; `controller_apis` serves requests.
"""
