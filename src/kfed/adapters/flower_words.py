"""Names that both sides of k-FED on Flower use, for queries and records."""

CLUSTER, IDENTITY = "cluster", "identity"
"""The queries: cluster your points and reply with a message; label your rows by this identity."""

RECORD = "kfed"
"""The record of a message with its content, and of a node's state with its local clustering."""

LABELS = "kfed-labels"
"""The record of a node's state with the global cluster of each of its points."""
