"""Names that both sides of k-FED on Flower use, for queries and records."""

CLUSTER, IDENTITY = "cluster", "identity"
"""The queries: cluster your points and reply with a message; label your rows by this identity."""

RECORD = "kfed"
"""The record of a message with its content, and of a node's state with its local clustering."""

ARRAYS = "kfed-arrays"
"""The record of a question with the model to learn from, where nodes are grouped by what they learn."""

CONFIG = "kfed-config"
"""The record of such a question with the configuration of the training."""

LABELS = "kfed-labels"
"""The record of a node's state with the global cluster of each of its points."""
