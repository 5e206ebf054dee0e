"""Record batches of magic 2: header, CRC, compression, validation, Arrow columns.

Start with `batch_header`. Code that touches every record calls `kernel`, which is compiled.
`batch_validator` validates a client's batch before the leader appends it.
"""
