"""Names that client and server share."""

SECRET_HEADER = "kfed-device-secret"
"""The header that carries a device secret."""

KEY_HEADER = "Idempotency-Key"
"""The header that tells a request that is repeated from a new one."""

ROUND_HEADER = "kfed-round"
"""The header of an identity that says how many rounds are behind the clusters."""

BYTES = "application/octet-stream"
"""The media type of messages and identities."""
FOUND_HEADER = "Kfed-Found"
"""How many clusters there are, by which rule, and how that was found, in JSON, beside an answer in bytes."""

NOTICES_HEADER = "Kfed-Notices"
"""What to look at, in JSON, beside an answer in bytes."""
