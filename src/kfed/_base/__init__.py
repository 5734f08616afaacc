"""What all other rooms share and no step of the paper is: checks, geometry, threads, random numbers, files.

Others import its modules: ``from kfed._base import checks, geometry``. It knows no device, message or aggregation.
"""
