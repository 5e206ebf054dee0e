"""SASL mechanisms as state machines without I/O, and principals from certificates.

Start with `sasl_exchange`, the interface of all mechanisms; `scram`, `plain_mechanism` and
`oauth_bearer` implement it. `ssl_principal` maps a certificate to a principal.
"""
