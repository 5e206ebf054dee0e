"""SASL: how a peer proves who it is. State machines of bytes in and bytes out, without I/O."""
