"""Render the console's pages as HTML from the data in `views`. Pure functions.

Start with `frame` (the layout of every page) and `parts` (shared elements).
"""
