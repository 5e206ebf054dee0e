"""Types of every layer: ids, error codes, exceptions, Clock and Random ports.

Start with `ids` and `error_codes`; `settings` holds the broker, topic and listener settings.
Nothing here reads a clock, a file or a socket.
"""
