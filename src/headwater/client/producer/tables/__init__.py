"""Arrow tables and ready-made batches as producer input.

Start with `table_batches`, which builds record batches from whole columns.
"""
