"""What the schema registry and the console share: HTTP port, TLS, basic authentication.

Start with `http_port`; `http_requests` reads paths and bodies, `http_settings` the settings.
"""
