"""JSON to typed columns and back, a column at a time.

Start with `json_reader` and `json_writer`.
"""
