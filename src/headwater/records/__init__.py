"""Record batches: the bytes that clients send, disks keep and Spark reads.

A batch is a buffer and its parsed 61-byte header. Records inside are opened only by the
compiled kernel (or its pure twin), a whole batch at a time.
"""
