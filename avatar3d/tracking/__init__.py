"""Tracking: a video or a camera in, motion codes out; the face networks find landmarks, the head model gives the pose."""

MAX_FACES, MAX_CAMERA = 8, 9999  # faces followed at once, and the highest number of a camera
