"""What deferred shading keeps of the nearest surface at each pixel, in images as large as the largest picture yet; and its depth."""

from __future__ import annotations

from typing import Any

SIDE_STEP_PX = 128  # sizes are rounded up to this, so that a picture that breathes by some pixels makes no new images
# Texture coordinates and directions in 16-bit unorm (half floats would give 44 dB), shade in half floats, places in full.
IMAGES = {"gbuffer_look": "nu2", "gbuffer_light": "f2", "gbuffer_place": "f4", "gbuffer_shaded": "f2"}
SURFACES = ("gbuffer_look", "gbuffer_light", "gbuffer_place")  # what is read to shade; the rest is read to compose


class GBuffer:
    """Two framebuffers over one depth: `surfaces`, which shaders/gbuffer_fragment.glsl fills, and `shaded`, what is made of them.

    The context must be current in every call.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self.size = (0, 0)
        self.surfaces: Any = None
        self.shaded: Any = None
        self._images: dict[str, Any] = {}

    def begin(self, width: int, height: int) -> None:
        """Use the lower left width × height pixels from now on, with no surface in them."""
        if width > self.size[0] or height > self.size[1]:
            self.release()
            width_px, height_px = (
                SIDE_STEP_PX * -(-max(side, before) // SIDE_STEP_PX)
                for side, before in zip((width, height), self.size, strict=True)
            )
            self.size = width_px, height_px
            context = self._context
            images = {name: context.texture(self.size, 4, dtype=dtype) for name, dtype in IMAGES.items()}
            depth = context.depth_texture(self.size)
            depth.compare_func = ""
            *surfaces, shaded = images.values()
            self.surfaces, self.shaded = context.framebuffer(surfaces, depth), context.framebuffer([shaded], depth)
            self._images = {**images, "gbuffer_depth": depth}
            for image in self._images.values():
                image.filter = (context.NEAREST, context.NEAREST)
        self.surfaces.viewport = self.shaded.viewport = (0, 0, width, height)
        self.shaded.depth_mask = False
        self.surfaces.depth_mask = True
        self.surfaces.clear(depth=1.0, viewport=(0, 0, width, height))

    def use(self, units: dict[str, int], surfaces: bool) -> None:
        """Bind the surfaces, or what was made of them with its depth, to texture units by the names of their samplers."""
        for name, image in self._images.items():
            if (name in SURFACES) == surfaces:
                image.use(units[name])

    def release(self) -> None:
        """Free the GL objects."""
        for resource in (self.surfaces, self.shaded, *self._images.values()):
            if resource is not None:
                resource.release()
        self.surfaces = self.shaded = None
        self._images = {}
