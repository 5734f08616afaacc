"""What is withheld: no statistic of too few rows, cells, levels or people leaves a device."""
