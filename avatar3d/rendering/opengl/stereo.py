"""Both eyes in one pass: the ways to do it. Constants only; what draws into layers is `opengl.layers`.

- "passes": one eye after the other, each with its own faces. Needs nothing.
- "layers": each draw call is an instance an eye, written into the eye's layer of array images by the vertex shader. Gives the
  same bits as "passes".
- "sides": the same into two halves of one picture, cut apart by a clip distance, for drivers without layers in vertex shaders.
  Window coordinates round differently: few pixels at edges differ.

A single pass saves draw calls, uploads of faces and shader switches, not pixels: it pays where those are dear.
"""

from __future__ import annotations

from typing import Literal

Stereo = Literal["passes", "layers", "sides"]
STEREO: tuple[Stereo, ...] = ("passes", "layers", "sides")
EYES = 2
CLIP_DISTANCE = 0x3000  # GL_CLIP_DISTANCE0, which moderngl has no name for
