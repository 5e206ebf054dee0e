"""Topics, partitions, configs, quotas, log directories, features and the cluster.

Most of these change metadata: `broker.node.pending_change` sends their responses.
"""
