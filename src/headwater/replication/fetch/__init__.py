"""The leader side of Fetch: sessions, log reads, the preferred read replica.

Start with `log_reads`; `fetch_session` serves consumers, `follower_fetch_session` followers.
`replica_selector` chooses a replica in the consumer's rack (KIP-392).
"""
