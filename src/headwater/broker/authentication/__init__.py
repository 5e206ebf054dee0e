"""SASL on listeners: mechanisms, inter-broker credentials, tokens, first users.

Start with `sasl_authenticator`, which handles a connection until it is authenticated.
`sasl_listeners` reads each listener's settings.
"""
