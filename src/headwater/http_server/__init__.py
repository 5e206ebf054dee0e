"""HTTP server of the schema registry and the console: port, TLS, basic authentication.

Start with `http_port`; `http_requests` reads paths and bodies, `http_settings` the settings.
"""
