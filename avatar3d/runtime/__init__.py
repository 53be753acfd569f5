"""What runs a live head, whatever shows it: threads joined by mailboxes, the stage, idle motion, gaze, and the quality ladder."""
