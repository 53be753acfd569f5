"""What need not be drawn: faces turned away, and faces outside the part of the screen that is drawn."""
