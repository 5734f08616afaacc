"""What can be read off an aggregation: profiles, quality, prediction, the best possible cost, pictures."""
