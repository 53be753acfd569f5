"""Motion codes: the one vocabulary every tracker is translated to at the door."""
