"""The desktop twin of the headset: the same heads, motion and quality ladder in a window."""

HELP = (
    "drag: look around", "wheel: nearer, farther", "1-9: faces, while held", "arrows, Page Up, Page Down: move the head",
    "R: everything back in its place", "S: both eyes side by side, or one picture", "L: eye contact", "M: as in a mirror",
    "O: figures", "H or F1: these keys", "Esc: quit",
)  # fmt: skip
