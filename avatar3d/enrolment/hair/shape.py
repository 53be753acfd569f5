"""The hair's surface: how far hair stands off the scalp in each direction and where it grows, from one outline in a photo."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from avatar3d.camera import Camera
from avatar3d.enrolment.hair.curtain import hanging_curtain
from avatar3d.enrolment.hair.grid import Harmonic, blur, cell_centres, enlarge, mirrored, ray_angles, ray_directions, sample
from avatar3d.enrolment.hair.outline import OUTLINE_BINS, bare_skin, measure
from avatar3d.enrolment.hair.strands import flow_step, grain, smear
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import look_up
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.geometry import smoothstep
from avatar3d.head.mediapipe import CHIN
from avatar3d.head.model import SKIN, HeadModel

ROWS, COLUMNS = 72, 128  # about 5 mm a cell on the head; finer shapes are the opacity's work
ROUNDS = 14  # of outline and region; the outline error falls under 1 % of its change by then
DAMPING = 0.45  # share of a round's new region that is taken
DRAWN_INSET_M = 0.0007  # hair is half opaque this far inside the outermost of its surface
TURNED_DEG = 6.0  # from this yaw on one side of the head is seen better
RELIEF_SHARE, MAX_RELIEF_M = 0.06, 0.0013  # height of locks where the photo does not show them, over the thickness
MIN_THICKNESS_M, MAX_THICKNESS_M, MAX_HANGING_M = 0.0015, 0.070, 0.110  # the last where a curtain goes on below
RIM_THICKNESS_M = 0.0018  # at the hairline, so that the base clears the skin's own facets
START_SHORT_M, START_LONG_M = 0.004, 0.012
CRANIUM_RADIUS_M = 0.088  # the rays' centre lies this far under the top of the head
MIN_TAPER = 0.35  # what an outline asks for under a stronger taper is left to the taper
RIM_WIDTH = 0.22  # in cosine of the angle to the view: what lies within it forms the outline
# Share of an ear's points under hair from which on it counts as covered, after the share of it that is seen bare times this: fitted
# ears lie some millimetres off, and hair passes behind free ones.
EARS_COVERED, EAR_SEEN_SHARE = 0.3, 0.5
SCALP_NEIGHBOURS, SCALP_SPREAD_RAD = 8, 0.03
NAPE_BELOW_EAR_M, MAX_NAPE_M = 0.014, 0.030  # of the hair's end behind free ears, and how much lower the photo may show it
NAPE_SHARE, NAPE_FULL_ABOVE_EAR_M = 0.12, 0.025  # of the thickness at the nape; full from this far above the ears
NAPE_DEG, NAPE_CELLS = (110.0, 135.0), 3.5  # azimuths from which on hair ends on the neck; it thins over 3 cm toward its end
CURTAIN_OVERLAP_M = 0.010  # hair over which a curtain hangs reaches so far below the ears
SIDEBURN_M = 0.016  # under the ears' top an unseen sideburn ends
ARCH_POINTS = 8  # of the line along which hair ends over an ear
HEM_WAVE_M = 0.0022  # how unevenly an unseen lower edge falls, one lock to the next
PINNA_M = 0.004  # what stands off the scalp by this much beside it is the ear itself
# From the ear's back on and below its upper rim it is hollow; half a ray map's cell about its points.
EAR_HOLLOW_SHARE, EAR_RIM_SHARE, EAR_HOLLOW_RAD = 0.35, 0.25, 0.035
BARE_FACING = 0.10  # cosine to the camera from which on the photo is believed about bare skin
THICKNESS_SCREEN, CROPPED_THICKNESS_SCREEN = 0.016, 0.08  # pull of unseen thickness to the usual one, see Harmonic
CROPPED_M, MEDIUM_M = 0.006, 0.012  # usual thickness up to which hair is cropped, from which on it is not
CROPPED_BACK_QUANTILE = 0.3  # of the outline's thickness that cropped hair has where none is seen
CROPPED_SPREAD = 4.0  # cropped hair is nowhere thicker than this times its median at the outline


@dataclass(frozen=True)
class HairShape:
    """Maps of (ROWS, COLUMNS) about `centre` (3,), head frame, metres.

    scalp: radius of the bare head. thickness: of the hair over it, tapering to RIM_THICKNESS_M at its rim. coverage: in
    [0, 1], where hair is. facing: cosine toward the photo's camera. bare: (H, W) of the work picture, see bare_skin.
    covered: True where hair hides the ears. hangs: in [0, 1], where it hangs as a curtain (see hair_curtain).
    error_px, error_m: mean distance of the projected outline from the hair mask's; iou: of the two outlines' areas.
    """

    centre: np.ndarray
    scalp: np.ndarray
    thickness: np.ndarray
    coverage: np.ndarray
    facing: np.ndarray
    bare: np.ndarray
    covered: bool
    hangs: np.ndarray
    error_px: float
    error_m: float
    iou: float

    @property
    def radius(self) -> np.ndarray:
        """(ROWS, COLUMNS) distance of the hair's surface from the centre, metres."""
        return self.scalp + self.thickness

    def points(self, radius: np.ndarray) -> np.ndarray:
        """(..., 3) head-frame points of a radius map of any size."""
        return self.centre + ray_directions(*cell_centres(*radius.shape)) * radius[..., None]


def scalp_map(vertices: np.ndarray, head: HeadModel) -> tuple[np.ndarray, np.ndarray]:
    """(centre (3,), (ROWS, COLUMNS) radius of the head without ears, metres) for (V, 3) head vertices."""
    fine = head.subdivided(1)
    points = fine.matrix @ vertices
    ears = fine.matrix @ head.regions["ears"] > 0.3
    wanted = ~ears & (points[:, 1] > -0.11)
    top = points[wanted, 1].max()
    upper = points[wanted & (points[:, 1] > 0.01)]
    centre = np.array([0.0, top - CRANIUM_RADIUS_M, (upper[:, 2].min() + upper[:, 2].max()) / 2])
    offset = points[wanted] - centre
    radius = np.linalg.norm(offset, axis=1)
    directions = ray_directions(*cell_centres(ROWS, COLUMNS))
    distance, nearest = cKDTree(offset / radius[:, None]).query(directions.reshape(-1, 3), k=SCALP_NEIGHBOURS)
    near = radius[nearest]
    # Sockets, nostrils and the mouth lie behind the skin: of the neighbours only the outer ones count.
    weight = np.where(near < near.max(1, keepdims=True) - 0.012, 0.0, np.exp(-((distance / SCALP_SPREAD_RAD) ** 2)) + 1e-9)
    surface = ((near * weight).sum(1) / weight.sum(1)).reshape(ROWS, COLUMNS)
    return centre, blur(surface, 0.75).astype(np.float64)


def build_shape(work: WorkPicture, seg: Segmentation, vertices: np.ndarray, head: HeadModel) -> HairShape:
    """Hair surface whose outline in the photo meets the mask; vertices: (V, 3) of the fitted head, metres."""
    return _Solver(work, seg, vertices, head).solve()


class _Solver:
    def __init__(self, work: WorkPicture, seg: Segmentation, vertices: np.ndarray, head: HeadModel) -> None:
        self.camera: Camera = work.camera
        self.seg = seg
        self.centre, self.scalp = scalp_map(vertices, head)
        self.theta, self.colatitude = cell_centres(ROWS, COLUMNS)
        self.rays = ray_directions(self.theta, self.colatitude)
        self.fine_rays = ray_directions(*cell_centres(3 * ROWS, 3 * COLUMNS))
        view = self.centre - self.camera.center
        view /= np.linalg.norm(view)
        self.facing = -(self.rays @ view)
        # On a turned head the far temple is seen edge-on: it copies the near one.
        self.near = 1 - np.clip((mirrored(self.facing) - self.facing - 0.12) / 0.15, 0, 1)
        self.yaw = float(np.degrees(np.arctan2(-view[0], -view[2])))
        self.azimuth = np.degrees(np.arctan2(self.rays[..., 0], self.rays[..., 2]))  # about the vertical, 0 in front
        self.harmonic = Harmonic(ROWS, COLUMNS)
        self.inset_px = DRAWN_INSET_M * float(self.camera.intrinsics[0, 0] / self.camera.project(self.centre[None])[1][0])
        self.locks = np.clip(blur(grain(ROWS, COLUMNS, 0.02, 22).mean(0, keepdims=True).repeat(ROWS, 0) * 3, 0.5), -2, 2)
        self.ears = self._pinnae(vertices, head)
        hidden = {side: self._hidden_share(side) for side in (-1, 1)}
        near = 0 if abs(self.yaw) < TURNED_DEG else int(np.sign(self.yaw))  # the far side is seen edge-on: it copies this one
        bare = {-1: seg.labels.ear_right_seen, 1: seg.labels.ear_left_seen}
        hidden = {side: share - EAR_SEEN_SHARE * bare[side] for side, share in hidden.items()}
        self.covered = (hidden[near] if near else max(hidden.values())) > EARS_COVERED
        self.over_ear = self._over_ear()
        self.bare = bare_skin(work.rgb, seg, float(self._pixels(self.ears)[:, 1].min()))
        self.outline = measure(seg, self.bare, self._pixels(self.centre[None])[0])
        hem_wave = HEM_WAVE_M * self.locks
        chin = float(head.landmark_points(vertices)[CHIN, 1])
        skin = vertices[head.vertex_part == SKIN]
        self.curtain = hanging_curtain(
            self.camera, seg.hair_mask, self.centre, self.rays, self.scalp, skin, self.ears, chin, hem_wave
        )
        self.hangs = np.zeros((ROWS, COLUMNS)) if self.curtain is None else self.curtain.share
        self.side_low = {side: self._lowest(near or side) for side in (-1, 1)}

    def _pixels(self, points: np.ndarray) -> np.ndarray:
        return self.camera.project(points)[0]

    def _pinnae(self, vertices: np.ndarray, head: HeadModel) -> np.ndarray:
        """(N, 3) vertices of the ears that stand off the head."""
        skin = vertices[head.regions["ears"] > 0.5]
        offset = skin - self.centre
        standing = np.linalg.norm(offset, axis=1) - sample(self.scalp, *ray_angles(offset)) > PINNA_M
        return skin[standing] if standing.sum() > 20 else skin

    def _over_ear(self) -> np.ndarray:
        """(ROWS, COLUMNS) bool: rays through the front of an ear, whose hollows lie deep enough for hair to show in them."""
        back, front = self.ears[:, 2].min(), self.ears[:, 2].max()
        top, low = self.ears[:, 1].max(), self.ears[:, 1].min()
        deep = (self.ears[:, 2] > back + EAR_HOLLOW_SHARE * (front - back)) & (
            self.ears[:, 1] < top - EAR_RIM_SHARE * (top - low)
        )
        hollow = self.ears[deep] - self.centre
        distance, _ = cKDTree(hollow / np.linalg.norm(hollow, axis=1, keepdims=True)).query(self.rays.reshape(-1, 3))
        return distance.reshape(ROWS, COLUMNS) < EAR_HOLLOW_RAD

    def _ear_arch(self, depth: np.ndarray) -> np.ndarray:
        """Height (Y, metres) of the ears' upper edge at a depth (Z) of any shape; it falls off steeply beyond the ears."""
        z = self.ears[:, 2]
        edges = np.linspace(z.min(), z.max(), ARCH_POINTS + 1)
        part = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, ARCH_POINTS - 1)
        top = np.full(ARCH_POINTS, -np.inf)
        np.maximum.at(top, part, self.ears[:, 1])
        held = np.isfinite(top)
        return np.interp(depth, ((edges[:-1] + edges[1:]) / 2)[held], top[held], right=-1.0)

    def _hidden_share(self, side: int) -> float:
        """Share of an ear under hair in the photo; side: the sign of X."""
        pixels = self._pixels(self.ears[np.sign(self.ears[:, 0]) == side])
        return float((look_up(self.seg.hair_mask.astype(np.float32), pixels) > 0.5).mean())

    def _lowest(self, side: int) -> float:
        """Height (Y, metres) to which the outline's hair falls on a side, the cranium's lower middle where none is seen."""
        angle = np.arange(OUTLINE_BINS) / OUTLINE_BINS * 2 * np.pi
        beside = self.outline.free & (np.cos(angle) * side > 0.35)
        if not beside.any():
            return float(self.centre[1] - 0.02)
        edge = self.outline.centre_px + np.stack([np.cos(angle), np.sin(angle)], 1) * self.outline.radius_px[:, None]
        lowest = edge[beside][edge[beside, 1].argmax()]
        return float(self.camera.unproject(lowest, self.camera.project(self.centre[None])[1][0])[1])

    def _nape(self) -> float:
        """Height (Y, metres) to which hair goes down behind free ears: the usual one, or as far as the photo shows it."""
        usual = float(self.ears[:, 1].min()) - NAPE_BELOW_EAR_M
        return float(np.clip(min(self.side_low.values()), usual - MAX_NAPE_M, usual))

    def _prior_region(self, height: np.ndarray) -> np.ndarray:
        """(ROWS, COLUMNS) where hair grows on the unseen sides: above the ears' line, down to the nape.

        height: (ROWS, COLUMNS) of the hair's surface, at which what hangs ends. A hairline is where hair meets the scalp.
        """
        around = np.abs(self.azimuth)
        _, root, depth = np.moveaxis(self.centre + self.rays * self.scalp[..., None], -1, 0)
        ear_low, ear_top = self.ears[:, 1].min(), self.ears[:, 1].max()
        behind = np.clip((self.ears[:, 2].min() + 0.016 - depth) / 0.022, 0, 1)
        hem = self._nape() + HEM_WAVE_M * self.locks + 0.004 * np.cos(np.radians((around - 155) * 6))
        if self.covered:
            left, right = self.side_low[-1], self.side_low[1]
            if self.curtain is not None:
                left, right = min(left, ear_low - CURTAIN_OVERLAP_M), min(right, ear_low - CURTAIN_OVERLAP_M)
            blend = np.clip((around - 90) / 70, 0, 1)
            limit = np.where(self.azimuth > 0, right, left) * (1 - blend) + (min(left, right) - 0.002) * blend
            grows = _above(height, limit + 2 * HEM_WAVE_M * self.locks * blend, 0.002)
            # Whatever the sides show, behind the ears hair goes down to the nape: nobody wears a bowl.
            grows = np.maximum(grows, behind * _above(root, hem, 0.002))
        else:
            # In front of the ear a sideburn, over it an arch, behind it down to the nape, lowest beside its middle.
            before = np.maximum(self._ear_arch(depth), ear_top - SIDEBURN_M)
            grows = _above(root, before * (1 - behind) + hem * behind, np.where(around > 100, 0.006, 0.002))
            grows = grows * ~self.over_ear
        return grows * ((around > 55) | (height > self.centre[1] + 0.062))

    def solve(self) -> HairShape:
        """Alternate between where hair is and how thick it is until the outline fits."""
        region = ((self.rays[..., 1] > -0.1) | (np.abs(self.azimuth) > 60)).astype(np.float64)
        thickness = np.full((ROWS, COLUMNS), START_LONG_M if self.covered else START_SHORT_M)
        tapered = thickness.copy()
        # Cropped hair is thin beside the face: a small misfit there would look at skin or backdrop.
        window = 0.12 if self.covered and abs(self.yaw) < TURNED_DEG else 0.30
        observed = np.clip((self.facing - window) / 0.2, 0, 1)
        observed = observed * self.near
        mean = float(thickness.mean())
        error, both = np.zeros(0), np.ones((2, 0))
        for step in range(ROUNDS):
            taper = np.ones_like(thickness) if step < 2 else self._taper(region)
            if self.curtain is not None:
                thickness = thickness + self.hangs * (self.curtain.radius - self.scalp - thickness)
                taper = taper + self.hangs * (1 - taper)
            tapered = _tapered(thickness, taper)
            radius = self.scalp + tapered
            fresh = self._region(radius, self.scalp + thickness, observed)
            region = fresh if step < 2 else (1 - DAMPING) * region + DAMPING * fresh
            reach, known = self._reach(radius, region)
            error = np.abs(self.outline.radius_px - reach)[known]
            both = np.stack([self.outline.radius_px[known], reach[known]]) ** 2
            if step == ROUNDS - 1:
                break
            thickness, mean = self._match_outline(radius, reach, known, thickness, taper, mean)
        unseen = np.clip((-0.1 - self.facing) / 0.25, 0, 1)
        lock = smear(grain(ROWS, COLUMNS, 0.016, 21), flow_step(np.zeros((ROWS, COLUMNS))), 3)
        relief = np.clip(RELIEF_SHARE * (tapered - RIM_THICKNESS_M), 0, MAX_RELIEF_M)
        relief = relief * np.clip((self.colatitude - 0.2) / 0.4, 0, 1)  # locks meet at the crown
        tapered = tapered + unseen * relief * np.clip(lock, -2, 2)
        depth = float(self.camera.project(self.centre[None])[1][0])
        mean_px = float(error.mean()) if error.size else 0.0
        iou = float(both.min(0).sum() / both.max(0).sum()) if error.size else 0.0
        return HairShape(
            self.centre, self.scalp, tapered, np.clip(region, 0, 1), self._shown(self.scalp + tapered), self.bare, self.covered,
            self.hangs, mean_px, mean_px * depth / float(self.camera.intrinsics[0, 0]), iou,
        )  # fmt: skip

    def _shown(self, radius: np.ndarray) -> np.ndarray:
        """(ROWS, COLUMNS) cosine toward the camera: of the rays, but of the surface itself where it hangs, far off their middle."""
        if self.curtain is None:
            return self.facing
        points = self.centre + self.rays * radius[..., None]
        normal = np.cross(np.gradient(points, axis=0), np.roll(points, -1, 1) - np.roll(points, 1, 1))
        normal *= np.sign((normal * self.rays).sum(-1, keepdims=True))
        toward = self.camera.center - points
        cosine = (normal * toward).sum(-1) / np.maximum(
            np.linalg.norm(normal, axis=-1) * np.linalg.norm(toward, axis=-1), 1e-12
        )
        return self.facing + self.hangs * (cosine - self.facing)

    def _region(self, radius: np.ndarray, full_radius: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """Where hair is; the prior looks at the radius before tapering, or hem and taper would chase each other."""
        pixels = self._pixels(self.centre + self.rays * radius[..., None])
        inward = 1 - 0.06 * np.clip(1 - self.facing / 0.6, 0, 1)  # near the outline a pixel further in is surer
        pixels = self.outline.centre_px + (pixels - self.outline.centre_px) * inward[..., None]
        seen = np.where(self.facing > 0.12, look_up(self.seg.hair_alpha, pixels), 0.0)
        other, other_seen = mirrored(observed), mirrored(seen)
        prior = self._prior_region((self.centre + self.rays * full_radius[..., None])[..., 1])
        unseen = np.where(other > observed, other * other_seen + (1 - other) * prior, prior)
        bare = (
            look_up(self.bare, self._pixels(self.centre + self.rays * radius[..., None]))
            * (self.facing > BARE_FACING)
            * self.near
        )
        region = (observed * seen + (1 - observed) * unseen) * (1 - bare)
        return region if self.curtain is None else region + self.hangs * (self.curtain.region - region)

    def _reach(self, radius: np.ndarray, region: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(outer radius px of the model's hair by outline bin, which bins can be compared)."""
        fine = self.fine_rays.shape[:2]
        hairy = enlarge(region, *fine) > 0.3
        points = self.centre + self.fine_rays[hairy] * enlarge(radius, *fine)[hairy][:, None]
        bins, distance = self.outline.bins(self._pixels(points))
        reach = np.zeros(OUTLINE_BINS)
        np.maximum.at(reach, bins, distance)
        reach = np.maximum(reach, np.maximum(np.roll(reach, 1), np.roll(reach, -1)))
        reach = np.maximum(reach - self.inset_px, 0)
        return reach, self.outline.free & (reach > 0)

    def _match_outline(
        self, radius: np.ndarray, reach: np.ndarray, known: np.ndarray, thickness: np.ndarray, taper: np.ndarray, mean: float
    ) -> tuple[np.ndarray, float]:
        """Scale the rim's directions toward the mask's edge and spread the thickness over the head."""
        beyond = ~self.outline.free & (reach > self.outline.person_px)
        wanted = np.where(beyond, self.outline.person_px, self.outline.radius_px)
        known = known | beyond
        scale = np.where(known, wanted / np.maximum(reach, 1.0), 1.0)
        bins, _ = self.outline.bins(self._pixels(self.centre + self.rays * radius[..., None]))
        above_rim = scale[bins] * radius - self.scalp - RIM_THICKNESS_M
        most = MAX_THICKNESS_M if self.curtain is None else MAX_HANGING_M
        target = np.clip(RIM_THICKNESS_M + above_rim / np.maximum(taper, MIN_TAPER), MIN_THICKNESS_M, most)
        rim = np.exp(-((self.facing / RIM_WIDTH) ** 2))
        weight = np.where(known[bins] & (rim > 0.1), rim, 0.0) * (1 - self.hangs)
        strong = weight > 0.3
        if strong.any():
            if not self.covered and np.median(target[strong]) < MEDIUM_M:
                target = np.minimum(target, CROPPED_SPREAD * np.median(target[strong]) + RIM_THICKNESS_M)
            mean = float(np.average(target[strong], weights=weight[strong]))
            if not self.covered:
                mean = float(np.quantile(target[strong], CROPPED_BACK_QUANTILE))
        # Cropped hair is cut to one length: bumps of the outline are not carried to the back of the head.
        cropped = 0.0 if self.covered else np.clip((MEDIUM_M - mean) / (MEDIUM_M - CROPPED_M), 0, 1)
        screen = THICKNESS_SCREEN + cropped * (CROPPED_THICKNESS_SCREEN - THICKNESS_SCREEN)
        filled = self.harmonic.fill(target, 8 * weight + 1e-6, screen, mean, start=thickness)
        return np.clip(filled, MIN_THICKNESS_M, most), mean

    def _taper(self, region: np.ndarray) -> np.ndarray:
        """Share of the thickness above the rim's: it falls steeply at the outline, over some centimetres where the face is seen."""
        front = np.clip((self.facing - 0.15) / 0.3, 0, 1) if self.covered else np.ones_like(region)
        steep = np.sqrt(np.clip((blur(region, 1.75) - 0.42) / 0.5, 0, 1))
        wide = np.clip((blur(region, 6.5) - 0.42) / 0.55, 0, 1) ** 0.8
        taper = steep * (1 - front) + np.minimum(steep, wide) * front
        # Behind, where no outline tells, hair ends on the neck and not a finger's breadth off it.
        nape = np.clip((-0.15 - self.facing) / 0.3, 0, 1) * smoothstep(*NAPE_DEG, np.abs(self.azimuth))
        taper = taper * (1 - nape) + np.minimum(taper, smoothstep(0.5, 0.95, blur(region, NAPE_CELLS))) * nape
        if not self.covered:
            # Hair that leaves the ears free is cut shorter toward the nape.
            ear_top, nape = self.ears[:, 1].max() + NAPE_FULL_ABOVE_EAR_M, self._nape()
            height = self.centre[1] + self.rays[..., 1] * self.scalp
            taper = taper * (NAPE_SHARE + (1 - NAPE_SHARE) * smoothstep(nape, ear_top, height))
        return taper


def _above(height: np.ndarray, limit: np.ndarray, softness: np.ndarray | float) -> np.ndarray:
    """In [0, 1]: whether heights lie over a limit, metres, passing from one to the other over a softness."""
    return 1 / (1 + np.exp(-np.clip((height - limit) / softness, -30, 30)))


def _tapered(thickness: np.ndarray, taper: np.ndarray) -> np.ndarray:
    return blur(RIM_THICKNESS_M + np.clip(thickness - RIM_THICKNESS_M, 0, None) * taper, 0.5).astype(np.float64)
