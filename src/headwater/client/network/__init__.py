"""The network layer of all clients: connections, metadata, coordinators, retries.

Start with `cluster_client` and `broker_connection`.
`metadata_refresh` decides when metadata is requested, `node_api_versions` which version is used.
"""
