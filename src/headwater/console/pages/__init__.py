"""HTML of the console's pages, from the data in `views`. Pure functions.

Start with `frame`, the frame of every page, and `parts`, the pieces they share.
"""
