"""What to look at in clusters: columns, levels, units and scales that do not fit, rows left out, devices too alike."""
