"""What a photo shows: the work picture about the head, which of its pixels are what, and how well a rendered head agrees with it."""
