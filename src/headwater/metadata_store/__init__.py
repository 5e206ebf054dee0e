"""Implementations of the metadata store: one file (`standalone`), or ZooKeeper.

The port is `metadata.ports.metadata_store`. Start with `standalone.standalone_store` or
`zookeeper.zookeeper_store`; `raft` has only the files of the quorum so far.
"""
