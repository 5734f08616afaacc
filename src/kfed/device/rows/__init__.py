"""The rows of devices, and products with them: many small devices at once, large ones in blocks, sparse ones."""
