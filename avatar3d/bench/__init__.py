"""Measures what drawing costs: each rung of the quality ladder beside a plain textured mesh, in one run."""

RATIO_SIZE = (512, 512)  # pixels, of the keys that name one ratio
