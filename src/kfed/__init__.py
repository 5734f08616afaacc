"""kfed: one-shot federated clustering."""
