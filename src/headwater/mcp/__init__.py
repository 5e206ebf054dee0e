"""A Model Context Protocol server: a cluster as tools for language models.

Start with `mcp_server`. `cluster_tools` reads, `write_tools` changes, `group_lag` explains why a
group is behind; `bounded_answers` limits every answer, and `http_access` checks requests over HTTP.
"""
