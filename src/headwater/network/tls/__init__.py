"""TLS: contexts from ssl.* settings, handshakes, the encrypted transport.

Start with `tls_endpoints`, which creates both ends; `tls_channel` is the transport layer.
`key_stores` reads PEM, PKCS12 and JKS stores.
"""
