"""Data of the console's pages: topics, records, groups, transactions, rates.

Start with `cluster_view`; the other modules serve one page each.
"""
