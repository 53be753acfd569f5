"""The controllers' one use: to take hold of what is shown and carry it; OpenXR actions for the usual controllers."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from avatar3d.motion.code import quaternion_matrix
from avatar3d.runtime.placement import Placement
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


class Hands:
    """Actions of a session, attached to it once, before its first frame. Raises pyopenxr's exceptions."""

    def __init__(self, instance: Any, session: Any) -> None:
        xr = self._xr = openxr.load()
        self._session = session
        self._paths = [xr.string_to_path(instance, hand) for hand in HANDS]
        self._set = xr.create_action_set(
            instance, xr.ActionSetCreateInfo(action_set_name="avatar", localized_action_set_name="Avatar")
        )
        self._grab, self._pose = (
            xr.create_action(
                self._set,
                xr.ActionCreateInfo(
                    action_name=name, action_type=kind, subaction_paths=self._paths, localized_action_name=told
                ),
            )
            for name, kind, told in (
                ("grab", xr.ActionType.BOOLEAN_INPUT, "Take hold of the head"),
                ("hand", xr.ActionType.POSE_INPUT, "Hand"),
            )
        )
        for profile, grab in GRABS.items():
            bindings = [
                xr.ActionSuggestedBinding(action, xr.string_to_path(instance, f"{hand}/{place}"))
                for hand in HANDS
                for action, place in ((self._grab, grab), (self._pose, "input/grip/pose"))
            ]
            # A runtime that does not know a controller says so; the others still count.
            with contextlib.suppress(xr.exception.PathUnsupportedError):
                xr.suggest_interaction_profile_bindings(
                    instance,
                    xr.InteractionProfileSuggestedBinding(
                        interaction_profile=xr.string_to_path(instance, profile), suggested_bindings=bindings
                    ),
                )
        xr.attach_session_action_sets(session, xr.SessionActionSetsAttachInfo(action_sets=[self._set]))
        self._spaces = [
            xr.create_action_space(session, xr.ActionSpaceCreateInfo(action=self._pose, subaction_path=path))
            for path in self._paths
        ]

    def holding(self, base_space: Any, runtime_time: int) -> Placement | None:
        """Pose of the first hand that holds, in the base space at an XrTime; None where none does."""
        xr = self._xr
        with contextlib.suppress(xr.exception.SessionNotFocused):
            xr.sync_actions(self._session, xr.ActionsSyncInfo(active_action_sets=[xr.ActiveActionSet(self._set)]))
        for path, space in zip(self._paths, self._spaces, strict=True):
            state = xr.get_action_state_boolean(self._session, xr.ActionStateGetInfo(self._grab, path))
            if not (state.is_active and state.current_state):
                continue
            location = xr.locate_space(space, base_space, runtime_time)
            wanted = xr.SpaceLocationFlags.ORIENTATION_VALID_BIT | xr.SpaceLocationFlags.POSITION_VALID_BIT
            if int(location.location_flags) & wanted.value == wanted.value:
                return _placement(location.pose)
        return None


def _placement(pose: Any) -> Placement:
    turn = np.array([pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w], np.float64)
    rotation = quaternion_matrix(turn / np.linalg.norm(turn))
    return Placement(rotation, np.array([pose.position.x, pose.position.y, pose.position.z], np.float64))
