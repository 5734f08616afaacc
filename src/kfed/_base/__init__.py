"""Tools that every room uses, and no step of the paper: checks, geometry, threads, random numbers, files.

Others import its modules: ``from kfed._base import checks, geometry``. It knows no device, message or aggregation.
"""
