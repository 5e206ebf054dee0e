# cython: language_level=3
"""The compiled record kernel."""
