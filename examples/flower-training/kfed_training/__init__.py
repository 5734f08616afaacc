"""PyTorch on Flower with k-FED: what runs on every node, what runs on the server, and the task that they learn."""
