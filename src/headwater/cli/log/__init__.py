"""`headwater log dump`: the files of a log, checked and printed.

Start with `log_dump` and `dump`.
"""
