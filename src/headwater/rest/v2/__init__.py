"""API v2: topics, produce requests and consumer instances. Start with `routes`."""
