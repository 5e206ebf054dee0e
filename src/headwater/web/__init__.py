"""HTTP faces: the schema registry, and what may come. Talks to brokers only through the client."""
