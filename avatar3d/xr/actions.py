"""What the wearer's hands and eyes do: OpenXR actions to take hold of what is shown and carry it, and the gaze of the eyes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from avatar3d.motion.code import quaternion_matrix
from avatar3d.runtime.placement import Placement
from avatar3d.runtime.views import is_rotation
from avatar3d.xr import openxr

HANDS = ("/user/hand/left", "/user/hand/right")
# Interaction profile: the input that holds. The simple controller's is what every runtime must offer.
GRABS = {
    "/interaction_profiles/khr/simple_controller": "input/select/click",
    "/interaction_profiles/oculus/touch_controller": "input/squeeze/value",
    "/interaction_profiles/valve/index_controller": "input/squeeze/value",
    "/interaction_profiles/htc/vive_controller": "input/squeeze/click",
    "/interaction_profiles/microsoft/motion_controller": "input/squeeze/click",
}
SYNC_EVERY_NS = 25_000_000  # while nothing is held: a grab this much later is not felt, and each look costs calls
GAZE = "XR_EXT_eye_gaze_interaction"
GAZE_PROFILE = "/interaction_profiles/ext/eye_gaze_interaction"
GAZE_PATH = "/user/eyes_ext/input/gaze_ext/pose"


class Actions:
    """Actions of a session, attached to it once, before its first frame. Raises pyopenxr's exceptions.

    reads_gaze: the instance has GAZE enabled and the wearer agreed.
    """

    def __init__(self, instance: Any, session: Any, reads_gaze: bool = False) -> None:
        xr = self._xr = openxr.load()
        self._session = session
        hands = [xr.string_to_path(instance, hand) for hand in HANDS]
        actions = xr.create_action_set(
            instance, xr.ActionSetCreateInfo(action_set_name="avatar", localized_action_set_name="Avatar")
        )

        def action(name: str, kind: Any, told: str, paths: list[Any]) -> Any:
            info = xr.ActionCreateInfo(action_name=name, action_type=kind, subaction_paths=paths, localized_action_name=told)
            return xr.create_action(actions, info)

        def suggest(profile: str, bound: list[tuple[Any, str]]) -> None:
            # A runtime that does not know a device says so; the others still count.
            with contextlib.suppress(xr.exception.PathUnsupportedError):
                suggested = [xr.ActionSuggestedBinding(act, xr.string_to_path(instance, path)) for act, path in bound]
                xr.suggest_interaction_profile_bindings(
                    instance,
                    xr.InteractionProfileSuggestedBinding(
                        interaction_profile=xr.string_to_path(instance, profile), suggested_bindings=suggested
                    ),
                )

        grab = action("grab", xr.ActionType.BOOLEAN_INPUT, "Take hold of the head", hands)
        pose = action("hand", xr.ActionType.POSE_INPUT, "Hand", hands)
        for profile, place in GRABS.items():
            suggest(
                profile,
                [(act, f"{hand}/{at}") for hand in HANDS for act, at in ((grab, place), (pose, "input/grip/pose"))],
            )
        gaze = None
        if reads_gaze:
            gaze = action("gaze", xr.ActionType.POSE_INPUT, "Gaze", [])
            suggest(GAZE_PROFILE, [(gaze, GAZE_PATH)])
        xr.attach_session_action_sets(session, xr.SessionActionSetsAttachInfo(action_sets=[actions]))
        self._sync = xr.ActionsSyncInfo(active_action_sets=[xr.ActiveActionSet(actions)])
        self._hands = [
            (
                xr.ActionStateGetInfo(grab, hand),
                xr.create_action_space(session, xr.ActionSpaceCreateInfo(action=pose, subaction_path=hand)),
            )
            for hand in hands
        ]
        self._synced: int | None = None  # XrTime of the last look at the input
        self._holding = [False] * len(hands)
        self._gaze = self._eyes = self._head = None
        if gaze is not None:
            self._gaze = xr.ActionStateGetInfo(gaze)
            self._eyes = xr.create_action_space(session, xr.ActionSpaceCreateInfo(action=gaze))
            kind = xr.ReferenceSpaceCreateInfo(reference_space_type=xr.ReferenceSpaceType.VIEW)
            self._head = xr.create_reference_space(session, kind)

    def holding(self, base_space: Any, runtime_time: int) -> Placement | None:
        """Pose of the first hand that holds, in the base space at an XrTime; None where none does. Ask once a frame."""
        if any(self._holding) or self._synced is None or runtime_time - self._synced >= SYNC_EVERY_NS:
            self._synced = runtime_time
            # Another application may have the input now.
            with contextlib.suppress(self._xr.exception.SessionNotFocused):
                self._xr.sync_actions(self._session, self._sync)
            states = [self._xr.get_action_state_boolean(self._session, grab) for grab, _ in self._hands]
            self._holding = [bool(state.is_active and state.current_state) for state in states]
        flags = self._xr.SpaceLocationFlags
        for holds, (_, space) in zip(self._holding, self._hands, strict=True):
            if holds:
                pose = self._locate(space, base_space, runtime_time, flags.ORIENTATION_VALID_BIT | flags.POSITION_VALID_BIT)
                if pose is not None:
                    return _placement(pose)
        return None

    def gaze(self, runtime_time: int) -> list[float] | None:
        """Quaternion xyzw of the eyes' gaze in the head's (view) space, looking along −Z, at an XrTime; None while unknown."""
        if self._gaze is None or not self._xr.get_action_state_pose(self._session, self._gaze).is_active:
            return None
        pose = self._locate(self._eyes, self._head, runtime_time, self._xr.SpaceLocationFlags.ORIENTATION_VALID_BIT)
        if pose is None:
            return None
        return [pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w]

    def _locate(self, space: Any, base_space: Any, runtime_time: int, known: Any) -> Any:
        """The XrPosef of a space, None where the `known` flags are not all set or its orientation is none."""
        location = self._xr.locate_space(space, base_space, runtime_time)
        if int(location.location_flags) & known.value != known.value:
            return None
        pose = location.pose
        turn = pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w
        return pose if is_rotation(turn) else None


def _placement(pose: Any) -> Placement:
    turn = np.array([pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w], np.float64)
    rotation = quaternion_matrix(turn / np.linalg.norm(turn))
    return Placement(rotation, np.array([pose.position.x, pose.position.y, pose.position.z], np.float64))
