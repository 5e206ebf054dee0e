"""Composition root: standalone or clustered broker, listeners, background tasks.

Start with `node`, then `standalone_node` and `cluster_node`. `controller_access` is how a broker
reaches the controller: `standalone_node` or `forwarding_manager`. Brokers of a KRaft cluster are in
`headwater.broker.broker_server`.
"""
