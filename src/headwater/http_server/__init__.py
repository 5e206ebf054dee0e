"""HTTP server of the registry and the console: port, TLS, authentication.

Start with `http_port`. `http_requests` and `http_errors` have the types of requests, routes and
errors that both share; `http_settings` reads settings, `request_guard` rejects cross-site requests,
`service_group` runs several servers in one process.
"""
