"""A window with an OpenGL context, by GLFW: what was done with mouse and keyboard, and pictures shown; draws nothing itself."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any

import numpy as np

from avatar3d.errors import WorkError
from avatar3d.extras import install_extra
from avatar3d.rendering.opengl.layers import LayeredTarget
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB, GL_SRGB8_ALPHA8, call
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.text import printable
from avatar3d.view.caption import Caption

_ADVICE = {
    "linux": "start it in a desktop session, or without one under xvfb-run",
    "win32": "update the graphics driver, which must give OpenGL 3.3 (over Remote Desktop many do not)",
    "darwin": "start it from the desktop of the user who is logged in, not over ssh",
}
USUAL_HZ = 60.0  # of displays that tell no rate, such as virtual ones
_KEYS = ("LEFT", "RIGHT", "UP", "DOWN", "PAGE_UP", "PAGE_DOWN", "ESCAPE", "F1")
GL_READ_FRAMEBUFFER, GL_DRAW_FRAMEBUFFER, GL_COLOR_BUFFER_BIT, GL_NEAREST = 0x8CA8, 0x8CA9, 0x4000, 0x2600


def _interruptible(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback from C, where an exception is lost: an interruption within it is kept for the next `poll`."""

    @wraps(callback)
    def called(self: Window, *arguments: Any) -> None:
        try:
            callback(self, *arguments)
        except KeyboardInterrupt:
            self._interrupted = True

    return called


class _Loader:
    """GL functions of the window's context, for moderngl: works whatever GLFW made the context with (GLX, EGL, WGL, CGL)."""

    def __init__(self, glfw: Any) -> None:
        self._glfw = glfw

    def load(self, name: str) -> int:
        """Address of a GL function, 0 where there is none."""
        return self._glfw.get_proc_address(name) or 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def release(self) -> None:
        """The window owns the context."""


class Window:
    """Use it as a context manager, from the main thread. Raises WorkError where no window can be opened.

    pressed: keys held now ("1", "left", "shift", ...). tapped, dragged_px, wheel: since `poll` was called last; dragged_px is
    (right, down).
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        try:
            import glfw
        except ImportError as error:
            raise WorkError(f"the window needs glfw, which is not installed; run: {install_extra('view')}") from error
        self._glfw = glfw
        self._problem = ""
        self._window: Any = None
        self._target: tuple[Any, Any, Any] | None = None
        self._layered: LayeredTarget | None = None
        self._caption: Caption | None = None
        self._interrupted = False
        self.pressed: set[str] = set()
        self.tapped: list[str] = []
        self.dragged_px = np.zeros(2)
        self.wheel = 0.0
        self._pointer: tuple[float, float] | None = None  # while a button is held
        glfw.ERROR_REPORTING = "ignore"
        glfw.set_error_callback(self._note)
        if not glfw.init():
            raise self._no_window()
        try:
            self._open(width, height, title)
        except BaseException:
            self.close()
            raise

    def _open(self, width: int, height: int, title: str) -> None:
        import moderngl

        glfw = self._glfw
        for hint, value in (
            (glfw.CONTEXT_VERSION_MAJOR, 3), (glfw.CONTEXT_VERSION_MINOR, 3), (glfw.DEPTH_BITS, 0),
            (glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE), (glfw.OPENGL_FORWARD_COMPAT, glfw.TRUE),
        ):  # fmt: skip
            glfw.window_hint(hint, value)
        self._window = glfw.create_window(width, height, printable(title), None, None)
        if not self._window:
            self._window = None
            raise self._no_window()
        glfw.make_context_current(self._window)
        glfw.swap_interval(1)
        loader: Any = _Loader(glfw)
        try:
            self.context: Any = moderngl.create_context(require=330, context=loader)
        except Exception as error:
            raise WorkError(f"this display's driver lacks OpenGL 3.3 ({error}); update it, or use avatar3d render") from error
        self._names = {getattr(glfw, f"KEY_{name}"): name.lower().replace("_", " ") for name in _KEYS}
        self._names |= {glfw.KEY_LEFT_SHIFT: "shift", glfw.KEY_RIGHT_SHIFT: "shift"}
        self._names |= {getattr(glfw, f"KEY_{sign}"): sign.lower() for sign in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
        glfw.set_key_callback(self._window, self._on_key)
        glfw.set_mouse_button_callback(self._window, self._on_button)
        glfw.set_cursor_pos_callback(self._window, self._on_pointer)
        glfw.set_scroll_callback(self._window, self._on_wheel)
        self._program = self.context.program(
            vertex_shader=assemble("window_vertex.glsl", {}), fragment_shader=assemble("window_fragment.glsl", {})
        )
        self._triangle = self.context.vertex_array(self._program, [])
        self._caption = Caption(self.context)
        self._share: Any = self._program["share"]
        self._last: Any = self._program["last"]

    def _note(self, code: int, message: bytes | str) -> None:
        self._problem = message.decode(errors="replace") if isinstance(message, bytes) else str(message)

    def _no_window(self) -> WorkError:
        reason = self._problem or "GLFW does not say why"
        advice = _ADVICE.get(sys.platform, _ADVICE["linux"])
        return WorkError(f"no window can be opened here ({reason}); {advice}, or draw files with avatar3d render")

    # --- what the user does

    @_interruptible
    def _on_key(self, window: Any, key: int, scancode: int, action: int, mods: int) -> None:
        name = self._names.get(key)
        if name is None:
            return
        if action == self._glfw.PRESS:
            self.pressed.add(name)
            self.tapped.append(name)
        elif action == self._glfw.RELEASE:
            self.pressed.discard(name)

    @_interruptible
    def _on_button(self, window: Any, button: int, action: int, mods: int) -> None:
        self._pointer = self._glfw.get_cursor_pos(window) if action == self._glfw.PRESS else None

    @_interruptible
    def _on_pointer(self, window: Any, x: float, y: float) -> None:
        if self._pointer is not None:
            self.dragged_px += np.array([x, y]) - self._pointer
            self._pointer = (x, y)

    @_interruptible
    def _on_wheel(self, window: Any, right: float, up: float) -> None:
        self.wheel += up

    def poll(self, wait_s: float = 0.0) -> None:
        """Follow events; `tapped`, `dragged_px` and `wheel` begin anew. wait_s: how long to wait for one."""
        self.tapped, self.dragged_px, self.wheel = [], np.zeros(2), 0.0
        if wait_s > 0:
            self._glfw.wait_events_timeout(wait_s)
        else:
            self._glfw.poll_events()
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    @property
    def closed(self) -> bool:
        """Whether the user closed the window."""
        return bool(self._glfw.window_should_close(self._window))

    def leaving(self) -> bool:
        """Follow events; whether the user closes the window or taps Esc."""
        self.poll()
        return self.closed or "escape" in self.tapped

    @property
    def size(self) -> tuple[int, int]:
        """Pixels of the picture; zeros while the window is minimised."""
        width, height = self._glfw.get_framebuffer_size(self._window)
        return width, height

    @property
    def hz(self) -> float:
        """The display's rate."""
        monitor = self._glfw.get_primary_monitor()
        mode = self._glfw.get_video_mode(monitor) if monitor else None
        return float(mode.refresh_rate) if mode and mode.refresh_rate else USUAL_HZ

    # --- pictures

    def target(self, width: int, height: int) -> Any:
        """An sRGB framebuffer with depth of at least width × height pixels, to be drawn into and given to `show`."""
        if self._target is None or self._target[0].width < width or self._target[0].height < height:
            self._release_target()
            color = self.context.texture((width, height), 4, internal_format=GL_SRGB8_ALPHA8)
            color.filter = self.context.LINEAR, self.context.LINEAR
            color.repeat_x = color.repeat_y = False
            depth = self.context.depth_renderbuffer((width, height))
            self._target = color, depth, self.context.framebuffer([color], depth)
        return self._target[2]

    def layered(self, width: int, height: int) -> LayeredTarget:
        """An sRGB target of two layers, width × height pixels each, to be drawn into and given to `join`. Raises WorkError."""
        if self._layered is None or self._layered.size != (width, height):
            self._release_layers()
            self._layered = LayeredTarget(self.context, width, height, GL_SRGB8_ALPHA8)
        return self._layered

    def join(self) -> None:
        """Lay the two layers side by side into the lower left of the target."""
        assert self._layered is not None
        width, height = self._layered.size
        target = self.target(2 * width, height)
        self.context.disable_direct(GL_FRAMEBUFFER_SRGB)  # bits as they are
        for index, eye in enumerate(self._layered.eyes):
            call(self.context, "glBindFramebuffer", GL_READ_FRAMEBUFFER, eye.glo)
            call(self.context, "glBindFramebuffer", GL_DRAW_FRAMEBUFFER, target.glo)
            places = (0, 0, width, height, index * width, 0, (index + 1) * width, height)
            call(self.context, "glBlitFramebuffer", *places, GL_COLOR_BUFFER_BIT, GL_NEAREST)
        target.use()

    def say(self, lines: Sequence[str], background_srgb: tuple[int, int, int]) -> None:
        """Show lines on an empty window at once, before there is a picture."""
        screen = self.context.screen
        screen.use()
        self.context.disable_direct(GL_FRAMEBUFFER_SRGB)
        self.context.clear(*(value / 255 for value in background_srgb))
        assert self._caption is not None
        self._caption.draw(lines, (0, 0, *self.size))
        self._glfw.swap_buffers(self._window)
        self._glfw.poll_events()  # a new window is mapped by then

    def show(
        self, width: int, height: int, keep: bool = False, caption: Sequence[str] = (), eyes: int = 1
    ) -> np.ndarray | None:
        """Show the target's lower left width × height pixels all over the window; returns what it shows, (H, W, 3) u8, to keep.

        caption: lines over it, once an eye.
        """
        assert self._target is not None and self._caption is not None
        color, screen = self._target[0], self.context.screen
        screen.use()
        right, top = self.size
        screen.viewport = (0, 0, right, top)
        self.context.disable_direct(GL_FRAMEBUFFER_SRGB)
        self.context.disable(self.context.BLEND | self.context.DEPTH_TEST | self.context.CULL_FACE)
        self._share.value = width / color.width, height / color.height
        self._last.value = (width - 0.5) / color.width, (height - 0.5) / color.height
        color.use(0)
        self._triangle.render(vertices=3)
        for eye in range(eyes):
            self._caption.draw(caption, (eye * right // eyes, 0, right // eyes, top))
        picture = None
        if keep:
            pixels = np.frombuffer(screen.read(viewport=(0, 0, right, top), components=3, alignment=1), np.uint8)
            picture = pixels.reshape(top, right, 3)[::-1].copy()
        self._glfw.swap_buffers(self._window)
        return picture

    # --- ending

    def _release_target(self) -> None:
        if self._target is not None:
            for resource in reversed(self._target):
                resource.release()
            self._target = None

    def _release_layers(self) -> None:
        if self._layered is not None:
            self._layered.release()
            self._layered = None

    def close(self) -> None:
        """Close the window; may be called again."""
        if self._window is not None:
            self._release_target()
            self._release_layers()
            if self._caption is not None:
                self._caption.close()
            self._glfw.destroy_window(self._window)
            self._window = None
        self._glfw.terminate()


@contextlib.contextmanager
def open_window(width: int, height: int, title: str) -> Iterator[Window]:
    """A window that is closed at the end. Raises WorkError where none can be opened."""
    window = Window(width, height, title)
    try:
        yield window
    finally:
        window.close()
