"""Request path: dispatch, API routes, calls, throttling, forwarding.

Start with `dispatch`, then `request_handler` and `api_routes`; `call` is one request in progress.
`quota_managers` decides how long a connection is muted.
"""
