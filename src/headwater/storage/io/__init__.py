"""Disk and executor ports with implementations, open files, cold reads.

Start with `disk` and `executor`, the two ports; `os_disk` and `thread_executor` implement them.
`file_range_reader` chooses between sendfile from the page cache and a read in a thread.
"""
