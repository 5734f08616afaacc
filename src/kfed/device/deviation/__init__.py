"""The spectral deviation, norm(A - C), by Lanczos steps; and the scatter of the rows, where it may be sent."""
