"""TLS: contexts from Kafka's ssl.* settings, handshakes, and the encrypted transport.

Start with `tls_endpoints`, which creates both ends; `tls_channel` is the transport layer.
`key_stores` reads PEM, PKCS12 and JKS stores.
"""
