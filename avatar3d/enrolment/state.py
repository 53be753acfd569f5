"""What enrolment knows: its options, the figures one may tune, and the frozen state that each stage hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL.Image import Image

from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.enrolment.photo.crop import WorkPicture, between, crop
from avatar3d.enrolment.target import Target
from avatar3d.field.definition import FieldConfig
from avatar3d.progress import ProgressCallback, silent

if TYPE_CHECKING:
    from avatar3d.avatar import Avatar
    from avatar3d.enrolment.field.options import TrainReport
    from avatar3d.enrolment.hair.assemble import HairResult
    from avatar3d.enrolment.photo.hidden import Hidden
    from avatar3d.enrolment.photo.metrics import Agreement
    from avatar3d.enrolment.photo.segment import Segmentation
    from avatar3d.enrolment.skin.atlas import SkinResult, SkinView
    from avatar3d.enrolment.verdict import Quality
    from avatar3d.enrolment.worn.glasses import Glasses
    from avatar3d.enrolment.worn.hat import Hat
    from avatar3d.face import FaceTracker
    from avatar3d.face.tracker import TrackedFace
    from avatar3d.fitting.fit import FaceFit
    from avatar3d.generator.protocol import Generator, GeneratorFactory, PhotoEvidence
    from avatar3d.head.model import HeadModel
    from avatar3d.head.protocol import MorphableModel
    from avatar3d.photo import Photo

Source = str | Path | Image | np.ndarray


@dataclass(frozen=True)
class Tuning:
    """What a person would tune: at which sizes enrolment works, and how the field is made. The rest stands where it is used."""

    segment_size_px: int = 640
    """Side of the picture that is segmented: the head with its hair at parse_frame.WORK_IOD_PX between the eyes."""
    head_widths: float = 7.3
    """Side of every other work picture over the distance between the eyes: head, hair and neck."""
    min_iod_px: float = 100.0
    """A smaller face is enlarged to so many pixels between the eyes before it is painted."""
    max_texture_iod_px: float = 200.0
    """The skin is painted at the photo's own resolution up to this: a texel of the face is then a pixel."""
    max_evidence_iod_px: float = 110.0
    """What is solved from the photo after that (the hair's colours, the field, the figures) looks at most this closely: the field's
    finest cell is 2.6 mm and a texel of hair 1 mm, so that beyond 0.6 mm a pixel only the time grows."""
    atlas_size: int = 1024
    """Texels a side of the face's atlas: a face of large_atlas_iod_px fills it."""
    large_atlas_size: int = 1280
    """The same of larger faces; one of max_texture_iod_px fills it."""
    large_atlas_iod_px: float = 170.0
    """Pixels between the eyes beyond which the atlas is the large one."""
    valid_yaw_deg: float = 40.0
    """To each side of where the photo was taken from, as far as it supports the look."""
    training: TrainOptions = field(default_factory=TrainOptions)
    """How the field is trained; its seed, back end and device are the options'."""
    field_sizes: FieldConfig = field(default_factory=FieldConfig)
    """Sizes of the field's grid and network, and what it may change."""


@dataclass(frozen=True)
class EnrollOptions:
    """How to enrol.

    face_index: 0 the largest face, 1 the next; face_box: (x, y, w, h) pixels where the face is. generator: the 2D generator that
    proposes other views: its name, itself, or a function that makes it of the photo's evidence. hair, field: build them.
    remove_glasses: leave them off. seed: of everything random.
    pupil_distance_mm: 40 to 80, the head's size where it is known; the photo's irises and the average adult tell it otherwise, and
    make a child's head too large. field_backend, device: how the field is trained, see avatar3d.field.network.check_back_end.
    head: the model that is fitted; None: the default head with calibrated landmarks. tuning: what is seldom touched.
    """

    face_index: int | None = None
    face_box: tuple[float, float, float, float] | None = None
    generator: str | Generator | GeneratorFactory = "photo"
    hair: bool = True
    field: bool = True
    remove_glasses: bool = False
    seed: int = 0
    pupil_distance_mm: float | None = None
    field_backend: str = "numba"
    device: str = "cpu"
    head: MorphableModel | None = None
    tuning: Tuning = Tuning()


LATER: Any = None  # in place of what no stage has found yet


@dataclass(frozen=True)
class Enrolment:
    """Everything that is known of one enrolment; a stage returns it with what it found. What no stage has found yet is LATER.

    Of the start: options, source (the photo as it was given), target (the file to write, or None), progress (of the running stage:
    called with its own share in [0, 1] and what is being done).

    photo: photo; name: what errors call it; digest: its SHA-256; generator_name, make_generator.
    face: tracker, the networks; face: landmarks and expression.
    fit: head, the model at this person's size; landmark_fit: the fit to the landmarks alone.
    segment: coarse, the work picture at WORK_IOD_PX between the eyes; segmentation of it; fit: landmark_fit whose skull, ears and
    skin meet the outline; hidden: what lies before the face; uncovered: (H, W, 3) u8, the photo with that replaced by skin.
    glasses: glasses, None without any; bare: `uncovered` without them.
    light: view, what the photo shows of the skin and under which light; dropped when the skin is painted, as it is the largest.
    hair, hat: hair, None without any; hat, None without one.
    skin: skin; avatar, which later stages replace.
    clothes: seen, the work picture that what follows is solved from; evidence, the same with its masks; generator, made of that.
    field: training, None where no field was trained.
    compare: agreement with the photo.
    judge: quality.

    notes: sentences for the user; figures: of the report, by their keys in it; seconds: by stage, in order.
    """

    options: EnrollOptions
    source: Source
    target: Target | None = None
    progress: ProgressCallback = silent
    photo: Photo = LATER
    name: str = ""
    digest: str = ""
    generator_name: str = ""
    make_generator: GeneratorFactory = LATER
    tracker: FaceTracker = LATER
    face: TrackedFace = LATER
    head: HeadModel = LATER
    landmark_fit: FaceFit = LATER
    coarse: WorkPicture = LATER
    segmentation: Segmentation = LATER
    fit: FaceFit = LATER
    hidden: Hidden = LATER
    uncovered: np.ndarray = LATER
    glasses: Glasses | None = None
    bare: np.ndarray = LATER
    view: SkinView = LATER
    hair: HairResult | None = None
    hat: Hat | None = None
    skin: SkinResult = LATER
    avatar: Avatar = LATER
    seen: WorkPicture = LATER
    evidence: PhotoEvidence = LATER
    generator: Generator = LATER
    training: TrainReport | None = None
    agreement: Agreement = LATER
    quality: Quality = LATER
    notes: tuple[str, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def glasses_kept(self) -> bool:
        """Whether the avatar wears the glasses of the photo."""
        return self.glasses is not None and not self.options.remove_glasses

    @property
    def shown(self) -> np.ndarray:
        """(H, W, 3) u8, the photo with what the avatar wears and without what else lies before the face."""
        return self.uncovered if self.glasses_kept else self.bare

    @property
    def landmarks_px(self) -> np.ndarray:
        """(478, 3) of the face in the photo."""
        return self.face.landmarks.points_px

    def picture(self, rgb: np.ndarray, most_iod_px: float) -> WorkPicture:
        """The work picture of a (H, W, 3) u8 version of the photo, as large as it is but most_iod_px between the eyes at most."""
        tuning = self.options.tuning
        iod = float(np.clip(self.fit.iod_px, tuning.min_iod_px, most_iod_px))
        return crop(rgb, self.fit.camera, self.landmarks_px, iod, 16 * round(iod * tuning.head_widths / 16))

    def on(self, picture: WorkPicture, mask: np.ndarray) -> np.ndarray:
        """A (H, W) mask of the segmented picture as f32 in the pixels of another work picture."""
        return between(mask.astype(np.float32), self.coarse, picture)

    def told(self, *notes: str, **figures: object) -> Enrolment:
        """The same with sentences for the user, those that are new, and figures for the report."""
        new = tuple(note for note in dict.fromkeys(notes) if note not in self.notes)
        return replace(self, notes=self.notes + new, figures={**self.figures, **figures})

    def report(self) -> dict[str, Any]:
        """JSON-able: what `avatar3d enroll --json` prints, as far as the stages have come."""
        total = {"total": round(sum(self.seconds.values()), 3)}
        return {**self.figures, "seconds": {**self.seconds, **total}, "warnings": list(self.notes)}
