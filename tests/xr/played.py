"""A runtime that is played: stands in for pyopenxr's functions, so that a whole HeadsetSession runs without any headset.

Structures, enumerations and exceptions are pyopenxr's own. Calls are noted in `calls`; what the wearer does is set in attributes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from avatar3d.rendering.opengl.layers import DepthArray
from avatar3d.xr import egl, openxr
from avatar3d.xr.headset import OPENGL

WIDTH, HEIGHT = 48, 40
PERIOD_NS = 60_000_000_000  # a minute a frame: however slow this machine is, drawing fits
GL_SRGB8_ALPHA8, GL_RGBA16F, GL_DEPTH_COMPONENT24 = 0x8C43, 0x881A, 0x81A6
FACE_FUNCTIONS = {
    "XR_FB_face_tracking2": ("xrCreateFaceTracker2FB", "xrGetFaceExpressionWeights2FB", "xrDestroyFaceTracker2FB"),
    "XR_ANDROID_face_tracking": ("xrCreateFaceTrackerANDROID", "xrGetFaceStateANDROID", "xrDestroyFaceTrackerANDROID"),
    "XR_HTC_facial_tracking": ("xrCreateFacialTrackerHTC", "xrGetFacialExpressionsHTC", "xrDestroyFacialTrackerHTC"),
}


class PlayedRuntime:
    """extensions: offered beside the least. refused: functions of extensions that fail, as FACE_FUNCTIONS' ({name: result}).

    face: {place: weight} told by the trackers. held: pose of a hand that holds, {0 or 1: XrPosef}. eyes: quaternion xyzw of the
    gaze or None. levels: thermal level by domain. events: to be polled. masks: (vertices, indices) of what is hidden by eye.
    arrays: whether a swapchain may have two layers. formats: of images. warp_size: of motion vectors, as recommended. moved:
    metres that the viewer went to the right. head, fov: orientation and angles of both eyes. views: of each frame that was ended,
    the structures of each eye's view; shown: size and angles (left, right, up, down) of each eye's picture.
    """

    def __init__(self, xr, graphics, extensions=()):
        self._xr, self._graphics = xr, graphics
        self._offered = [OPENGL, egl.EXTENSION, *extensions]
        self.calls: list[str] = []
        self.bindings: dict[str, list[str]] = {}
        self.unknown_profiles: set[str] = set()
        self.refused: dict[str, int] = {}
        self.face: dict[int, float] = {}
        self.face_seen = True
        self.held: dict[int, object] = {}
        self.eyes = None
        self.levels: dict[int, object] = {}
        self.events: list[object] = []
        self.masks: dict[int, tuple[list[tuple[float, float]], list[int]]] = {}
        self.arrays = True
        self.formats = [GL_SRGB8_ALPHA8]
        self.warp_size = (24, 20)
        self.moved = 0.0
        self.head = (0.0, 0.0, 0.0, 1.0)
        self.fov = (-0.7, 0.7, 0.7, -0.7)
        self.views: list[list[list[object]]] = []
        self.shown: list[list[tuple[tuple[int, int], tuple[float, ...]]]] = []
        self.ends: list[int] = []  # layers of each frame that was ended
        self._spaces: dict[int, str] = {}
        self._paths: list[str] = ["none"]
        self._textures = []
        self.images: dict[int, object] = {}  # by handle of the swapchain
        self._display = 0
        self.period_ns = PERIOD_NS
        self._handles = 0

    def __getattr__(self, name):
        found = getattr(self._xr, name)
        if callable(found) and name.startswith(("destroy_", "begin_", "end_", "attach_", "sync_", "release_", "wait_")):
            return lambda *_: self.calls.append(name)
        return found

    def _handle(self, kind, note=""):
        self._handles += 1
        self._spaces[self._handles] = note
        return ctypes.cast(self._handles, kind)

    def _note(self, handle):
        return self._spaces[ctypes.cast(handle, ctypes.c_void_p).value]

    # --- the session

    def enumerate_instance_extension_properties(self):
        return self._offered

    def create_instance(self, info):
        self.enabled = [name.decode() for name in info.enabled_extension_names]
        return self._handle(self._xr.Instance)

    def get_instance_properties(self, instance):
        return SimpleNamespace(runtime_name=b"played")

    def get_system(self, instance, info):
        return 1

    def get_system_properties(self, instance, system):
        return SimpleNamespace(system_name=b"headset")

    def enumerate_view_configurations(self, instance, system):
        return [self._xr.ViewConfigurationType.PRIMARY_STEREO.value]

    def enumerate_view_configuration_views(self, instance, system, kind):
        return [SimpleNamespace(recommended_image_rect_width=WIDTH, recommended_image_rect_height=HEIGHT)] * 2

    def enumerate_environment_blend_modes(self, instance, system, kind):
        return [self._xr.EnvironmentBlendMode.OPAQUE.value]

    def create_session(self, instance, info):
        self.says(self._xr.SessionState.READY)
        return self._handle(self._xr.Session)

    def create_reference_space(self, session, info):
        return self._handle(self._xr.Space, str(self._xr.ReferenceSpaceType(info.reference_space_type).name))

    def enumerate_swapchain_formats(self, session):
        return self.formats

    def create_swapchain(self, session, info):
        context, layers, size = self._graphics.context, info.array_size, (info.width, info.height)
        if layers > 1 and not self.arrays:
            raise self._xr.exception.FeatureUnsupportedError()
        if info.format == GL_DEPTH_COMPONENT24:
            texture = DepthArray(context, *size) if layers > 1 else context.depth_texture(size)
        else:
            dtype, bytes_ = ("f2", 8) if info.format == GL_RGBA16F else ("f1", 4)
            empty = bytes(size[0] * size[1] * bytes_ * layers)
            make = context.texture if layers == 1 else context.texture_array
            texture = make(size if layers == 1 else (*size, layers), 4, empty, dtype=dtype)
        self._textures.append(texture)
        handle = self._handle(self._xr.Swapchain)
        self.images[ctypes.cast(handle, ctypes.c_void_p).value] = texture
        return handle

    @property
    def first_swapchain(self):
        """The handle, a key of `images`, of what was made first: the colours of the eyes."""
        return min(self.images)

    def enumerate_swapchain_images(self, handle, kind):
        return [SimpleNamespace(image=self._textures[-1].glo)]

    def acquire_swapchain_image(self, handle, info):
        return 0

    def says(self, state):
        """The runtime tells of a state of the session."""
        self.events.append(self._xr.EventDataSessionStateChanged(state=state))

    def poll_event(self, instance):
        if not self.events:
            raise self._xr.exception.EventUnavailable()
        return self.events.pop(0)

    def request_exit_session(self, session):
        self.says(self._xr.SessionState.STOPPING)
        self.says(self._xr.SessionState.EXITING)

    def wait_frame(self, session, info):
        self._display += self.period_ns
        return SimpleNamespace(predicted_display_time=self._display, predicted_display_period=self.period_ns, should_render=1)

    def end_frame(self, session, info):
        self.calls.append("end_frame")
        self.ends.append(info.layer_count)
        xr, seen, shown = self._xr, [], []
        for place in range(info.layer_count):
            layer = ctypes.cast(info._layers[place], ctypes.POINTER(xr.CompositionLayerProjection)).contents
            seen = [self._chain(layer._views[eye].next) for eye in range(layer.view_count)]
            for eye in range(layer.view_count):
                size, fov = layer._views[eye].sub_image.image_rect.extent, layer._views[eye].fov
                shown.append(((size.width, size.height), (fov.angle_left, fov.angle_right, fov.angle_up, fov.angle_down)))
        self.views.append(seen)
        self.shown.append(shown)

    def _chain(self, address):
        """Copies of the structures of a chain that is known here."""
        xr, found = self._xr, []
        kinds = {
            xr.StructureType.COMPOSITION_LAYER_DEPTH_INFO_KHR: xr.CompositionLayerDepthInfoKHR,
            xr.StructureType.COMPOSITION_LAYER_SPACE_WARP_INFO_FB: xr.CompositionLayerSpaceWarpInfoFB,
        }
        while address:
            head = ctypes.cast(address, ctypes.POINTER(xr.CompositionLayerDepthInfoKHR)).contents
            kind = kinds[xr.StructureType(head.type)]
            structure = kind()
            ctypes.memmove(ctypes.byref(structure), address, ctypes.sizeof(kind))
            found.append(structure)
            address = structure.next
        return found

    def locate_views(self, session, info):
        xr = self._xr
        views = [
            xr.View(
                pose=xr.Posef(xr.Quaternionf(*self.head), xr.Vector3f(side * 0.0315 + self.moved, 1.6, 0)),
                fov=xr.Fovf(*self.fov),
            )
            for side in (-1, 1)
        ]
        return xr.ViewState(view_state_flags=xr.ViewStateFlags.ORIENTATION_VALID_BIT), views

    def thermal_get_temperature_trend_ext(self, session, domain):
        level = self.levels[domain.value]
        if isinstance(level, Exception):
            raise level
        return level, 0.0, 0.0

    # --- actions

    def string_to_path(self, instance, text):
        if text not in self._paths:
            self._paths.append(text)
        return self._paths.index(text)

    def create_action_set(self, instance, info):
        return self._handle(self._xr.ActionSet)

    def create_action(self, actions, info):
        return self._handle(self._xr.Action, info.action_name.decode())

    def suggest_interaction_profile_bindings(self, instance, info):
        profile = self._paths[info.interaction_profile]
        if profile in self.unknown_profiles:
            raise self._xr.exception.PathUnsupportedError()
        self.bindings[profile] = [
            f"{self._note(bound.action)} {self._paths[bound.binding]}"
            for bound in info._suggested_bindings[: info.count_suggested_bindings]
        ]

    def create_action_space(self, session, info):
        return self._handle(self._xr.Space, f"{self._note(info.action)} {self._paths[info.subaction_path]}")

    def _hand(self, path):
        return ("/user/hand/left", "/user/hand/right").index(path)

    def get_action_state_boolean(self, session, info):
        held = self._hand(self._paths[info.subaction_path]) in self.held
        return SimpleNamespace(is_active=1, current_state=int(held))

    def get_action_state_pose(self, session, info):
        return SimpleNamespace(is_active=int(self.eyes is not None))

    def locate_space(self, space, base, when):
        xr, (name, path) = self._xr, self._note(space).split()
        flags = xr.SpaceLocationFlags.ORIENTATION_VALID_BIT
        if name == "gaze":
            assert self._note(base) == "VIEW"
            return SimpleNamespace(location_flags=flags.value, pose=xr.Posef(xr.Quaternionf(*self.eyes), xr.Vector3f()))
        both = flags | xr.SpaceLocationFlags.POSITION_VALID_BIT
        return SimpleNamespace(location_flags=both.value, pose=self.held[self._hand(path)])

    # --- functions of extensions

    def function(self, instance, name, prototype):
        """What openxr.instance_function gives."""
        return getattr(self, f"_{name}", None) or (lambda *arguments: self._face_call(name, *arguments))

    def _xrGetOpenGLGraphicsRequirementsKHR(self, instance, system, needs):
        needs._obj.min_api_version_supported = 3 << 48 | 3 << 32
        return 0

    def _xrGetSystemProperties(self, instance, system, properties):
        if "xrGetSystemProperties" in self.refused:
            return self.refused["xrGetSystemProperties"]
        wanted = ctypes.cast(properties._obj.next, ctypes.POINTER(self._xr.SystemSpaceWarpPropertiesFB)).contents
        assert wanted.type == self._xr.StructureType.SYSTEM_SPACE_WARP_PROPERTIES_FB
        wanted.recommended_motion_vector_image_rect_width, wanted.recommended_motion_vector_image_rect_height = self.warp_size
        return 0

    def _xrGetVisibilityMaskKHR(self, session, kind, eye, mask_type, mask):
        assert mask_type == self._xr.VisibilityMaskTypeKHR.HIDDEN_TRIANGLE_MESH.value
        if "xrGetVisibilityMaskKHR" in self.refused:
            return self.refused["xrGetVisibilityMaskKHR"]
        vertices, indices = self.masks.get(eye, ([], []))
        told = mask._obj
        told.vertex_count_output, told.index_count_output = len(vertices), len(indices)
        if told.vertex_capacity_input:
            assert (told.vertex_capacity_input, told.index_capacity_input) == (len(vertices), len(indices))
            for place, (x, y) in enumerate(vertices):
                told.vertices[place].x, told.vertices[place].y = x, y
            for place, index in enumerate(indices):
                told.indices[place] = index
        return 0

    def _face_call(self, name, *arguments):
        """A tracker's function of FACE_FUNCTIONS: an int, as in C."""
        self.calls.append(name)
        if name.startswith("xrCreate"):
            kind = getattr(arguments[1]._obj, "facial_tracking_type", None)
            return self.refused.get(name if kind is None else f"{name} {self._xr.FacialTrackingTypeHTC(kind).name}", 0)
        if name.startswith("xrDestroy"):
            return 0
        self._tell(arguments[-1]._obj)
        return self.refused.get(name, 0)

    def _tell(self, state):
        """Fill a tracker's structure as a runtime does, through its pointers."""
        if hasattr(state, "expression_count"):  # HTC: eyes are the first 14 of the vocabulary, lips the rest
            state.is_active, state.sample_time = int(self.face_seen), self._display
            first = 0 if state.expression_count == 14 else 14
            places = range(first, first + state.expression_count)
            for place in places:
                state._expression_weightings[place - first] = self.face.get(place, 0.0)
            return
        state.is_valid = int(self.face_seen)
        if hasattr(state, "parameters_capacity_input"):  # Android
            state.sample_time = self._display
            state.parameters_count_output = state.parameters_capacity_input
            state.region_confidences_count_output = state.region_confidences_capacity_input
            weights, count, sure = state.parameters, state.parameters_capacity_input, state.region_confidences
            sure[0] = sure[1] = sure[2] = 1.0
        else:
            state.time = self._display
            weights, count = state._weights, state.weight_count
            state._confidences[0] = state._confidences[1] = 1.0
        for place in range(count):
            weights[place] = self.face.get(place, 0.0)


@contextmanager
def played_runtime(monkeypatch: pytest.MonkeyPatch, *extensions: str) -> Iterator[PlayedRuntime]:
    """A runtime that offers these extensions; sessions take `graphics` of it."""
    xr = pytest.importorskip("xr", reason="pyopenxr is not installed")
    graphics = egl.create()
    runtime = PlayedRuntime(xr, graphics, extensions)
    runtime.graphics = graphics
    monkeypatch.setattr(openxr, "load", lambda: runtime)
    monkeypatch.setattr(openxr, "instance_function", runtime.function)
    try:
        yield runtime
    finally:
        graphics.close()
