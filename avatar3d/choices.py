"""Words and ranges that both the parts and the command line know: what a setting may be. Imports nothing."""

TUNING_MODES = ("cached", "again", "never")  # measure where nothing is remembered; measure anew; draw as by default
FOVEATION_KINDS = ("none", "fixed", "gaze")  # sharp everywhere; around what is straight ahead; or where the eyes look
STEREO_CHOICES = ("auto", "passes", "layers")  # as measured; one eye after the other; both at once where the driver can
# What a motion's weights are: how far a head goes along its own shapes, or what a tracking network said of a face.
DIALECTS = ("solved", "network")

FPS_RANGE = (1.0, 240.0)  # of a film
