"""Topics, partitions, configs, quotas, log directories, features and the cluster.

Most of these change metadata: see `broker.node.pending_change` for how they are answered.
"""
