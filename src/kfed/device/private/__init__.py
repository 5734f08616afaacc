"""Differential privacy: steps of Algorithm 1 with noise, and the promise that goes with them."""
