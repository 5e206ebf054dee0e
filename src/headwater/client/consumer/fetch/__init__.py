"""Fetching: sessions (KIP-227), completed fetches, read_committed, Arrow tables.

Start with `fetcher`, then `fetch_collector`, which returns records to the application.
"""
