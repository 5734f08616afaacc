"""The steps of Algorithm 1 that have files of their own: the projection, and Lloyd's method in its forms."""
