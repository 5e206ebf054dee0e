"""Collect the data of the console's pages: topics, records, groups, transactions, throughput.

Start with `cluster_view`; the other modules serve one page each.
"""
