"""Data of the console's pages: topics, records, groups, transactions, throughput.

Start with `cluster_view`; each module collects what one page shows.
"""
