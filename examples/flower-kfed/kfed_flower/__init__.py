"""k-FED as a Flower app: what runs on every node, and what runs on the server."""
