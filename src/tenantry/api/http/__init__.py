"""HTTP/1.1 on the wire: connections, framing, and limits."""
