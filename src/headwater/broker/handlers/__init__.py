"""Request handlers, one module per API with `handle` and `error_response`, loaded on first use.

Grouped by purpose; `requests.api_routes` maps API keys to modules.
`cluster_authorization` and `config_authorization` are shared by several groups.
"""
