"""What the two sides of k-FED on Flower call things: names of queries and of records. Imports neither side."""

CLUSTER, IDENTITY = "cluster", "identity"
"""The queries: cluster your points and send a message; here is which global cluster each local one is."""

RECORD = "kfed"
"""The record of a message that holds what is said, and of a node's state that holds its local clustering."""

LABELS = "kfed-labels"
"""The record of a node's state that holds the global cluster of each of its points."""
