"""`headwater log dump`: print and check the files of a log.

Start with `log_dump` and `dump`.
"""
