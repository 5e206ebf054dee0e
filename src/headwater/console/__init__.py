"""The web console: pages for browsers, and the same data as JSON under `/api`.

Start with `routes` (all paths) and `server`. `page_data` and `views` collect data, `pages` render
it as HTML, `actions` change the cluster.
"""
