"""Motion codes: the one vocabulary every tracker is translated to where its numbers come in (`validation`)."""
