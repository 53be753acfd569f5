"""MediaPipe's numbering of a face's landmarks: which point is which, here and nowhere else; holds no places and no model.

The numbers are those of MediaPipe's face landmarker (canonical_face_model_uv_visualization.png of its geometry module): 468
points of the face's mesh, then each iris' middle and four points of its edge. Left and right are the subject's own, and whatever
exists for both eyes stands as (left, right), as in a MotionCode. Loops run around what they enclose.
"""

from __future__ import annotations

from avatar3d.avatar import LANDMARKS

MESH_POINTS = LANDMARKS  # of the face's surface: what an avatar embeds
POINTS = 478  # with the irises

# --- eyes: the edge of an opening from its outer corner along the lower lid and back along the upper one
LEFT_EYE = (263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466)
RIGHT_EYE = (33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246)
EYE_LOOPS = (LEFT_EYE, RIGHT_EYE)
LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS = (263, 362), (33, 133)  # outer, inner
EYE_CORNERS = (LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS)
UPPER_LIDS = tuple((*eye[8:], eye[0]) for eye in EYE_LOOPS)  # from the inner corner to the outer one
LOWER_LIDS = tuple(eye[:9] for eye in EYE_LOOPS)  # from the outer corner to the inner one
LID_MIDDLES = ((386, 374), (159, 145))  # of the upper and the lower lid
# Points of upper and lower lids that lie on one another when they are shut, of the right eye and of the left one.
LID_PAIRS = ((160, 144), (159, 145), (158, 153), (387, 373), (386, 374), (385, 380))

# --- irises: the middle, then four points of the edge
LEFT_IRIS, RIGHT_IRIS = (473, 474, 475, 476, 477), (468, 469, 470, 471, 472)
IRISES = (LEFT_IRIS, RIGHT_IRIS)
IRIS_CENTRES = (LEFT_IRIS[0], RIGHT_IRIS[0])
IRIS_EDGES = ((474, 476, 475, 477), (469, 471, 470, 472))  # right and left, above and below, as a picture shows them

# --- brows
LEFT_BROW = (300, 293, 334, 296, 336, 285, 295, 282, 283, 276)
RIGHT_BROW = (70, 63, 105, 66, 107, 55, 65, 52, 53, 46)
BROWS = (*RIGHT_BROW, *LEFT_BROW)
BROW_TOPS = (105, 334, 66, 296)

# --- mouth: its outer edge and its opening, both from the right corner along the lower lip and back along the upper one
LIPS_OUTER = (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185)
INNER_LIP_UPPER = (
    191,
    80,
    81,
    82,
    13,
    312,
    311,
    310,
    415,
)  # from right to left, as the lower one; pairs meet in a closed mouth
INNER_LIP_LOWER = (95, 88, 178, 87, 14, 317, 402, 318, 324)
INNER_LIPS = (*INNER_LIP_UPPER, *INNER_LIP_LOWER)
MOUTH_ENDS = (78, 308)  # of the opening, right and left
LIPS_INNER = (78, *INNER_LIP_LOWER, 308, *reversed(INNER_LIP_UPPER))
LIP_PAIRS = tuple(zip(INNER_LIP_UPPER, INNER_LIP_LOWER, strict=True))
INNER_LIP_MIDDLES = (13, 14)  # of the upper and the lower lip
OUTER_LIP_MIDDLES = (0, 17)
MOUTH_CORNERS = (61, 291)  # of the outer edge, right and left

# --- the face's axis, outline and parts
CHIN, FOREHEAD_TOP = 152, 10
TEMPLE_RIGHT, TEMPLE_LEFT = TEMPLES = (234, 454)  # the face's sides, before the ears
NOSE_ROOT, NOSE_TIP, NOSE_BASE = 168, 1, 2
NOSE = (168, 6, 197, 195, 5, 4, 1, 2, 98, 327)
NOSTRILS = (98, 327, 2, 97, 326, 94)
CHEEKS = (50, 280, 101, 330)
# The outline of the face in order, from the forehead's top toward the subject's left.
FACE_OVAL = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176, 149, 150, 136,
    172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
# Skin where beards grow: below the lower lip, above the upper one, along the right and the left jaw.
CHIN_POINTS = (194, 201, 200, 421, 418, 199, 208, 428, 171, 175, 396, 148, 152, 377, 32, 262)
MOUSTACHE_POINTS = (164, 167, 393, 165, 391, 92, 322, 97, 2, 326, 37, 0, 267)
JAW_POINTS = ((172, 136, 150, 149, 32, 211, 210, 212, 214, 192), (397, 365, 379, 378, 262, 431, 430, 432, 434, 416))
# The edge of a surgical mask along the jaw and over the nose.
SURGICAL_MASK = (
    132, 58, 172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397, 288, 361, 352, 347, 348, 6, 119, 118, 123
)  # fmt: skip
# What a scan's depth is compared at.
DEPTH_POINTS = {"nose": (1, 4), "chin": (152, 175, 199), "forehead": (10, 151), "cheeks": TEMPLES}

# --- sets
# Pairs (right, left) spread over the face, whose difference is the head's left-right axis.
MIRRORED_PAIRS = ((33, 263), (133, 362), (127, 356), (234, 454), (93, 323), (61, 291))
# Points that speech leaves alone and that do not slide on the outline.
STABLE = (
    1, 2, 4, 5, 6, 8, 9, 19, 27, 28, 33, 45, 48, 51, 56, 64, 66, 94, 98, 107, 115, 122, 129, 130, 133, 151, 168, 174, 188, 190,
    193, 195, 196, 197, 209, 217, 220, 226, 236, 243, 244, 248, 257, 258, 263, 275, 278, 281, 286, 294, 296, 327, 336, 344, 351,
    358, 359, 362, 399, 412, 414, 417, 419, 420, 437, 440, 456, 463, 464, 465,
)  # fmt: skip
# dlib's five points: outer and inner corner of the left eye, of the right eye, base of the nose.
FIVE_POINTS = (*LEFT_EYE_CORNERS, *RIGHT_EYE_CORNERS, NOSE_BASE)
# The detector's six key points: the eyes, the nose's tip, the mouth, the ears' roots; right before left.
DETECTOR_POINTS = (RIGHT_IRIS[0], LEFT_IRIS[0], NOSE_TIP, INNER_LIP_MIDDLES[0], *TEMPLES)
# What the blendshape network takes, in this order (face_blendshapes_graph.cc).
BLENDSHAPE_INPUT = (
    0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65, 66, 67, 70,
    78, 80, 81, 82, 84, 87, 88, 91, 93, 95, 103, 105, 107, 109, 127, 132, 133, 136, 144, 145, 146, 148, 149,
    150, 152, 153, 154, 155, 157, 158, 159, 160, 161, 162, 163, 168, 172, 173, 176, 178, 181, 185, 191, 195,
    197, 234, 246, 249, 251, 263, 267, 269, 270, 276, 282, 283, 284, 285, 288, 291, 293, 295, 296, 297, 300,
    308, 310, 311, 312, 314, 317, 318, 321, 323, 324, 332, 334, 336, 338, 356, 361, 362, 365, 373, 374, 375,
    377, 378, 379, 380, 381, 382, 384, 385, 386, 387, 388, 389, 390, 397, 398, 400, 402, 405, 409, 415, 454,
    466, 468, 469, 470, 471, 472, 473, 474, 475, 476, 477,
)  # fmt: skip
