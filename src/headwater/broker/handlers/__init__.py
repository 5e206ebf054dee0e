"""One module per API, each with its `handle`. They are loaded when they are first needed."""
