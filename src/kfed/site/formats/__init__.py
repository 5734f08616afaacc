"""How tables are read: one reader for each format, and what CSV files leave open."""
