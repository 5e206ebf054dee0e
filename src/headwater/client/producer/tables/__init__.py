"""Arrow tables and encoded batches as producer input.

Start with `table_batches`, which builds record batches from whole columns.
"""
