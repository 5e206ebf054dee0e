"""Metadata in ZooKeeper, in the znode layout of Kafka 3.x.

Start with `zookeeper_store`; `znode_paths` and `znode_data` describe the layout.
`zookeeper_client` is the port for a ZooKeeper client, `kazoo_zookeeper` implements it.
"""
