"""How pictures are computed: choices that change the speed and not the picture; `autotune` measures which are fastest here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from avatar3d.choices import Form
from avatar3d.errors import InputError

# The values of each choice; the first is drawn where nothing was measured, and is the fastest on a software driver.
VALUES: dict[str, tuple[str, ...]] = {
    "table": ("buffer", "texture", "storage"),
    "numbers": ("float", "half"),
    "network": ("literals", "uniforms"),
    "colors": ("half", "srgb"),
    "stereo": ("layers", "passes"),
    "shading": ("forward", "deferred"),
    "morph": ("cpu", "gpu"),
}
LIVE_ONLY = ("table", "numbers", "network", "shading")
STORAGE_GL = 430  # OpenGL version from which shaders read storage buffers


@dataclass(frozen=True)
class DrawStrategy:
    """Choices between ways to compute the same picture.

    table: where the live field's tables lie: a buffer texture, a 2D texture, or a storage buffer (OpenGL 4.3). numbers: of
    the tables, 32- or 16-bit floats. network: the live field's weights as literals of the shader, or in a uniform block, with
    which all of the field is evaluated at each pixel (avatar3d.rendering.lod.field_source).
    colors: base and hair colour as linear 16-bit floats, or as 8-bit sRGB that the driver decodes; where textures have eight
    bits anyway it has no meaning. stereo: how both eyes are drawn into array images (opengl.stereo), for callers that
    have such; the renderer is told at each draw. shading: the live field on the skin evaluated as faces are drawn, or all of it
    once for each pixel when all are (opengl.gbuffer); one pass for both eyes is always forward. morph: the head posed, lit and
    sorted into seen and unseen faces by the CPU, or posed and lit by the GPU (opengl.gpu_morph), which then draws all
    faces. Raises InputError on an unknown value.
    """

    table: str = VALUES["table"][0]
    numbers: str = VALUES["numbers"][0]
    network: str = VALUES["network"][0]
    colors: str = VALUES["colors"][0]
    stereo: str = VALUES["stereo"][0]
    shading: str = VALUES["shading"][0]
    morph: str = VALUES["morph"][0]

    def __post_init__(self) -> None:
        for name, allowed in VALUES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"unknown {name} {getattr(self, name)!r}; expected one of {', '.join(allowed)}")

    def to_json(self) -> dict[str, str]:
        """{choice: value}."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def of_form(self, form: Form) -> DrawStrategy:
        """With what has no meaning for a form as by default, so that one program serves all that differ only there."""
        return self if form == "live" else replace(self, **{name: VALUES[name][0] for name in LIVE_ONLY})


def possible(name: str, gl_version: int) -> tuple[str, ...]:
    """The values of a choice that an OpenGL version (430 for 4.3) can draw."""
    return tuple(value for value in VALUES[name] if value != "storage" or gl_version >= STORAGE_GL)
