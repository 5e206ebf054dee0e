"""A broker of a KRaft cluster, which observes the metadata log.

Start with `broker_server`, the composition root. `broker_lifecycle_manager` decides when to
register and what to report; `metadata_observer` replays the metadata log.
"""
