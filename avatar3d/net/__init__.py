"""Motion codes between machines: sealed packets, what is kept of a stream at both ends, the links they travel by, the commands."""
