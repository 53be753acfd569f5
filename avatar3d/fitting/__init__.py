"""A head model fitted to landmarks: identity, expression, camera, and the person's face at rest; knows nothing of pictures."""
