"""The broker: request dispatch, one handler per API, and the composition root.

Start with `node.node`, which builds a broker, then `requests.dispatch` and `handlers`.
"""
