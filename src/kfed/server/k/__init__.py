"""How many clusters there are: from distances, by comparing several numbers, and how sure that is."""
