"""Tracking: a video or a camera in, motion codes out; the face networks find landmarks, the head model gives the pose."""
