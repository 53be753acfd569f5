"""Foreign formats: what other programs read of an avatar."""
