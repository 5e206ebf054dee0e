"""One machine's logs: segments, indexes, producer state, recovery, retention, compaction.

Everything here works against the ports in `disk` and `executor`, so that the shipped code
runs on a fake disk that loses what was not synced.
"""
