"""The web console: a cluster in a browser and as JSON.

Start with `routes` (every path) and `server`; `views` collect data, `pages` make HTML of it,
`actions` change the cluster.
"""
