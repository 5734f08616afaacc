"""The rules by which device centers are grouped, and their steps: `kfed.server.algorithm2` has the list."""
