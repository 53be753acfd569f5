"""Training of the neural field: pixels, batches, objective, loop, and what the training changed."""
