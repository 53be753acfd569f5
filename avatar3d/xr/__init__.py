"""The head in a headset: an OpenXR session, and the loop that draws a live head in it. pyopenxr is imported when it starts."""
