"""What cells and columns are: numbers, dates, flags, categories, or identifiers, which are left out."""
