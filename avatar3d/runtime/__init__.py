"""What runs a live head: three threads joined by mailboxes, and the governor of the quality ladder; knows no display."""
