"""The desktop twin of the headset: the same heads, motion and quality ladder in a window."""
