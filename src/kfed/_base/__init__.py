"""What every room stands on and none of the paper's steps lives in: checks, geometry, threads, random numbers, files.

Its modules are its public line: ``from kfed._base import checks, geometry``. It knows no device, message or cluster.
"""
