"""Request handlers, one module per API with `handle` and `error_response`.

Grouped by purpose; `requests.api_routes` maps API keys to modules and loads them on first use.
`cluster_authorization` and `config_authorization` are shared by several groups.
"""
