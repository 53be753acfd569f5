"""Measures what drawing costs: each rung of the quality ladder beside a plain textured mesh, in one run."""
