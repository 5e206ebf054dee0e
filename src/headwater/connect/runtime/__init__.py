"""Connect worker: run several connectors and serve Kafka Connect's REST API.

Start with `herder`, which decides what runs on this worker. `worker` carries out its decisions,
`connect_store` keeps configs, statuses and offsets in topics, `rest` has the REST API, and `task`
is the child process of one connector.
"""
