"""Enrolment: one photo in; an avatar and a report of how well it agrees with the photo out. Each step has its own file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from avatar3d import __version__
from avatar3d.avatar import PART_LASH, PART_SKIN, Avatar, BakedField
from avatar3d.camera import Camera
from avatar3d.enrolment.field.train import TrainOptions, TrainReport, train
from avatar3d.enrolment.field.view_term import settle_texture
from avatar3d.enrolment.hair.assemble import HairResult, build_hair
from avatar3d.enrolment.hair.refine import refine_hair, settle_hair
from avatar3d.enrolment.pace import by_the_clock
from avatar3d.enrolment.photo.crop import WorkPicture, between, crop
from avatar3d.enrolment.photo.hidden import find_hidden
from avatar3d.enrolment.photo.metrics import Agreement, agreement
from avatar3d.enrolment.photo.rim import Rim
from avatar3d.enrolment.photo.segment import WORK_IOD_PX, segment
from avatar3d.enrolment.shape.cranium import grow_cranium
from avatar3d.enrolment.shape.ears import fit_ears
from avatar3d.enrolment.shape.outline import meet_outline
from avatar3d.enrolment.shape.reach import learn_reach
from avatar3d.enrolment.skin.atlas import SkinResult, build_skin, view_skin
from avatar3d.enrolment.skin.projection import Covers
from avatar3d.enrolment.verdict import Evidence, is_grey, judge, likeness_of
from avatar3d.enrolment.worn.attach import put_on
from avatar3d.enrolment.worn.clothes import dress
from avatar3d.enrolment.worn.glasses import find_glasses, without_glasses
from avatar3d.enrolment.worn.glasses_mesh import glasses_parts, temple_lines
from avatar3d.enrolment.worn.hat import Hat, build_hat
from avatar3d.face import FaceTracker
from avatar3d.field.bake import bake
from avatar3d.field.network import check_back_end
from avatar3d.fitting.fit import FaceFit, fit_face
from avatar3d.fitting.given import given_head
from avatar3d.fitting.size import check_pupil_distance, head_size, to_size
from avatar3d.generator import generator_of, paint
from avatar3d.generator.protocol import Generator, GeneratorFactory, PhotoEvidence
from avatar3d.head.model import HeadModel
from avatar3d.head.protocol import MorphableModel
from avatar3d.photo import given_photo
from avatar3d.progress import ProgressCallback, silent
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.fragments import fragments_kept
from avatar3d.rendering.reference.renderer import ReferenceRenderer

SEGMENT_SIZE_PX = 640  # the head with its hair at WORK_IOD_PX
# The skin is painted at the photo's own resolution up to this distance between the eyes: a texel of the face is then a pixel.
MAX_TEXTURE_IOD_PX = 200.0
MIN_TEXTURE_IOD_PX = 100.0
# What is solved from the photo after that (the hair's colours, the field, the figures) looks at most this closely: the field's finest
# cell is 2.6 mm and a texel of hair 1 mm, so that beyond 0.6 mm a pixel only the time grows.
MAX_EVIDENCE_IOD_PX = 110.0
HEAD_WIDTHS = 7.3  # side of a work picture over the distance between the eyes: head, hair and neck
# Texels a side of the face's atlas: a face of 170 px between the eyes fills the first, of MAX_TEXTURE_IOD_PX the second.
ATLAS_SIZE, LARGE_ATLAS_SIZE = 1024, 1280
LARGE_ATLAS_IOD_PX = 170.0
# The photo supports the look to about 40 degrees to each side of where it was taken from.
VALID_YAW_DEG = 40.0


@dataclass(frozen=True)
class EnrollOptions:
    """How to enrol.

    face_index: 0 the largest face, 1 the next; face_box: (x, y, w, h) pixels where the face is. generator: the 2D generator that
    proposes other views: its name, itself, or a function that makes it of the photo's evidence. hair, field: build them.
    remove_glasses: leave them off. seed: of everything random.
    pupil_distance_mm: 40 to 80, the head's size where it is known; the photo's irises and the average adult tell it otherwise, and
    make a child's head too large. field_backend, device: how the field is trained, see avatar3d.field.network.check_back_end.
    head: the model that is fitted; None: the default head with calibrated landmarks.
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


class _Stopwatch:
    """Seconds by stage, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] = round(time.perf_counter() - started, 3)


def enroll(
    photo: str | Path | Image | np.ndarray, options: EnrollOptions | None = None, progress: ProgressCallback = silent
) -> tuple[Avatar, dict[str, Any]]:
    """Enrol the face of a photo: a file, a Pillow image, or (H, W, 3) uint8 sRGB.

    Returns the avatar and the report (JSON-able; the keys of `avatar3d enroll --json` but `avatar` and `bytes`).
    Raises InputError when the photo cannot be read or holds no usable face, WorkError when a back end is missing.
    Repeats to the bit with one BLAS thread: set OPENBLAS_NUM_THREADS=1 before numpy is imported, as the command line does.
    """
    options = options or EnrollOptions()
    check_pupil_distance(options.pupil_distance_mm)
    if options.field:
        check_back_end(options.field_backend, options.device)
    watch = _Stopwatch()
    progress = by_the_clock(progress, options.hair, options.field)
    progress(0.0, "reading the photo")
    with watch("photo"):
        taken, name, digest = given_photo(photo)
        generator_name, make_generator = generator_of(options.generator)
    height, width = taken.rgb.shape[:2]

    progress(0.03, "finding the face")
    with watch("face"):
        tracker = FaceTracker()
        face = tracker.track(taken.rgb, options.face_index, options.face_box, name)
    warnings = [*taken.notes, *face.notes]

    progress(0.08, "fitting the head")
    with watch("fit"):
        head = given_head(options.head)
        fit = fit_face(face.landmarks, face.blendshapes, width, height, taken.focal_px, head)
        fit, head = to_size(fit, head, head_size(fit, face.landmarks, head, options.pupil_distance_mm))

    progress(0.12, "finding the hair")
    with watch("segment"):
        coarse = crop(taken.rgb, fit.camera, face.landmarks.points_px, WORK_IOD_PX, SEGMENT_SIZE_PX)
        others = [coarse.to_work(box.box_px.reshape(2, 2)).ravel() for box in tracker.others(taken.rgb, face)]
        segmentation = segment(coarse, neighbours=others)
        fit = fit_ears(grow_cranium(fit, head, coarse, segmentation.matte), head, coarse, segmentation)
        fit = meet_outline(fit, head, coarse, segmentation)
    hidden = find_hidden(coarse, segmentation.labels)
    warnings += [*segmentation.notes, *hidden.notes()]
    shown_face = hidden.filled(taken.rgb, coarse)

    progress(0.18, "estimating the light")
    with watch("glasses"):
        glasses = find_glasses(taken.rgb, face.landmarks.points_px)
        bare, keep_glasses = shown_face, glasses is not None and not options.remove_glasses
        if glasses is not None:
            temples = temple_lines(glasses, fit.camera, fit.neutral_vertices, head)
            bare, _ = without_glasses(shown_face, face.landmarks.points_px, glasses, temples)
            warnings += glasses.notes(options.remove_glasses)
    dark_lenses = glasses is not None and glasses.dark
    with watch("light"):
        fine = _picture(bare, fit, face.landmarks.points_px, MAX_TEXTURE_IOD_PX)
        matte, hair_alpha = (between(mask, coarse, fine) for mask in (segmentation.matte, segmentation.hair_alpha))
        labels = segmentation.labels
        lying = labels.clothes | labels.hat | labels.hand | labels.glasses | labels.completed | hidden.area
        covers = Covers(*(between(mask.astype(np.float32), coarse, fine) for mask in (labels.beard, lying, labels.neck)))
        view = view_skin(fine, fit, head, matte, hair_alpha, covers)

    hair: HairResult | None = None
    if options.hair:
        progress(0.25, "growing the hair")
        with watch("hair"):
            hair = build_hair(coarse, segmentation, fit, head, view.light, view.shading_power)
        warnings += [note for note in hair.notes if note not in warnings]
    atlas_size = LARGE_ATLAS_SIZE if fit.iod_px > LARGE_ATLAS_IOD_PX else ATLAS_SIZE
    hat: Hat | None = None
    if hair is not None and hair.shape is not None and labels.hat.any():
        with watch("hat"):
            hat = build_hat(coarse, labels.hat, hair.shape, fit.neutral_vertices, view.light, view.shading_power, atlas_size)
            hair = hair if hat is None else hair.under_hat(hat.covers, hat.tuck)

    progress(0.4, "painting the skin")
    with watch("skin"):
        skin = build_skin(
            view,
            hair_alpha,
            None if hair is None else hair.scalp_mask,
            None if hair is None else hair.scalp_color_srgb,
            size=atlas_size,
            unseen=frozenset(name for name, lost in (("eyes", dark_lenses), ("mouth", hidden.mouth)) if lost),
        )
    avatar = _assemble(head, fit, skin, hair, face.landmarks.yaw_rad)

    with watch("reach"):
        avatar = replace(avatar, reach=learn_reach(avatar, face.blendshapes, tracker))

    with watch("clothes"):
        clothes = dress(taken.rgb, face.landmarks.points_px, fit, head, coarse, segmentation, avatar)
        worn = [clothes.part] if hat is None else [clothes.part, hat.part]
        if glasses is not None and keep_glasses:
            worn += glasses_parts(glasses, fit.camera, fit.neutral_vertices, head)
        avatar = put_on(replace(avatar, vertices=clothes.vertices), worn, clothes.hidden)
    warnings += clothes.notes

    shown = shown_face if keep_glasses else bare
    seen = _picture(shown, fit, face.landmarks.points_px, MAX_EVIDENCE_IOD_PX)
    strands = segmentation.hair_alpha if hat is None else segmentation.without_hat().hair_alpha
    matte, hair_alpha, person = (between(mask, coarse, seen) for mask in (segmentation.matte, strands, segmentation.person))
    evidence = PhotoEvidence(seen.rgb, seen.camera, fit.motion, matte, hair_alpha)
    with fragments_kept(seen.camera):
        with watch("refine_hair"):
            avatar = refine_hair(avatar, evidence, None if hair is None else hair.growth)

        training: TrainReport | None = None
        made_by = make_generator(evidence)
        if options.field:
            with watch("field"):
                avatar, training = _train(avatar, evidence, made_by, options, progress)
        if getattr(made_by, "paints", True):
            with watch("paint"):
                avatar = paint(avatar, made_by)

        progress(0.95, "comparing with the photo")
        with watch("compare"):
            without, with_field = _compare(avatar, fit.motion, seen, matte, person)
    avatar.provenance = {
        "made_by": f"avatar3d {__version__}",
        "date": date.today().isoformat(),
        "photo_sha256": digest,
        "head": "assets/head.npz",
        "generator": generator_name,
        "seed": options.seed,
        "segmentation_confidence": round(segmentation.confidence, 3),
        "photo_coverage": round(skin.coverage, 3),
        "training": None if training is None else training.to_json(),
    }
    report = _report(avatar, fit, face.faces_found, without, with_field, seen, hair, training)
    progress(0.97, "judging the avatar")
    with watch("judge"):
        figures = Evidence(
            silhouette_mm=report["silhouette_error_mm"],
            silhouette_iou=report["silhouette_iou"],
            crown_mm=report["crown_error_mm"],
            crown_iou=report["crown_iou"],
            outline_mm=report["outline_error_mm"],
            face_psnr_db=with_field.face_psnr_db,
            rim=with_field.rim or Rim(),
            bare_unlike_skin=segmentation.bare_unlike_skin,
            presence=face.landmarks.presence,
            glasses=keep_glasses,
            hidden=hidden.cause or ("sunglasses hide the eyes" if dark_lenses else ""),
            photo_psnr_db=report["photo_psnr_db"],
            seen_share=skin.coverage,
            iod_px=fit.iod_px,
            yaw_rad=face.landmarks.yaw_rad,
            grey=is_grey(taken.rgb),
            hair_confidence=segmentation.confidence,
            size_by_iris=fit.size_by_iris,
        )
        quality = judge(figures, likeness_of(avatar, shown, face.landmarks))
    if quality.grade == "poor":
        warnings.append(quality.line())
    return avatar, {
        **report,
        "quality": {**quality.to_json(), "line": quality.line()},
        "seconds": watch.seconds,
        "warnings": warnings,
    }


def _picture(rgb: np.ndarray, fit: FaceFit, landmarks_px: np.ndarray, most_iod_px: float) -> WorkPicture:
    iod = float(np.clip(fit.iod_px, MIN_TEXTURE_IOD_PX, most_iod_px))
    return crop(rgb, fit.camera, landmarks_px, iod, 16 * round(iod * HEAD_WIDTHS / 16))


def _assemble(head: HeadModel, fit: FaceFit, skin: SkinResult, hair: HairResult | None, yaw_rad: float) -> Avatar:
    vertices = fit.neutral_vertices.astype(np.float32)
    if hair is not None:
        vertices = vertices + hair.tuck_offsets.astype(np.float32)
    yaw = float(np.degrees(yaw_rad))
    return Avatar(
        vertices=vertices,
        faces=head.faces,
        part=head.part,
        uv=head.uv,
        weld=head.weld,
        expression=fit.expression_shapes,
        head_weight=head.head_weight,
        vertex_alpha=_cover(head),
        field_weight=(head.vertex_part == PART_SKIN).astype(np.float32),
        joints=head.joints(vertices),
        base_color=skin.base_color,
        confidence=skin.confidence,
        light=skin.light,
        shading_power=skin.shading_power,
        landmark_triangles=head.landmark_tri,
        landmark_barycentric=head.landmark_bary,
        hair=None if hair is None else hair.shells,
        texture_deltas=skin.texture_deltas,
        photo_camera=fit.camera,
        photo_motion=fit.motion,
        valid_yaw_deg=(round(-yaw - VALID_YAW_DEG, 1), round(-yaw + VALID_YAW_DEG, 1)),
    )


def _cover(head: HeadModel) -> np.ndarray:
    """(V,) coverage: 0 at the tips of the lashes, 1 elsewhere."""
    return np.where(head.vertex_part == PART_LASH, head.regions.get("lashes", 1), 1).astype(np.float32)


def _train(
    avatar: Avatar, evidence: PhotoEvidence, generator: Generator, options: EnrollOptions, progress: ProgressCallback
) -> tuple[Avatar, TrainReport]:
    params, report = train(
        avatar,
        evidence,
        generator,
        TrainOptions(seed=options.seed, implementation=options.field_backend, device=options.device),
        progress=lambda share, label: progress(0.5 + 0.42 * share, label),
    )
    avatar = replace(avatar, neural_field=params)
    avatar = replace(avatar, base_color=settle_texture(avatar, evidence.motion, evidence.camera))
    avatar = settle_hair(avatar, evidence)
    progress(0.93, "baking the field")
    return replace(avatar, baked=bake(avatar)), report


def _compare(
    avatar: Avatar, motion: object, picture: WorkPicture, matte: np.ndarray, person: np.ndarray
) -> tuple[Agreement, Agreement]:
    renderer = ReferenceRenderer()
    forms = ("mesh", "live" if avatar.neural_field is not None else "mesh")
    results = []
    for form in forms:
        options = RenderOptions(form=form)  # type: ignore[arg-type]
        (frame,) = renderer.render(avatar, motion, [picture.camera], options)  # type: ignore[arg-type]
        results.append(agreement(frame, picture.rgb, matte, picture.landmarks_px, picture.inside, person))
    renderer.close()
    return results[0], results[1]


def _report(
    avatar: Avatar,
    fit: FaceFit,
    faces_found: int,
    without: Agreement,
    with_field: Agreement,
    picture: WorkPicture,
    hair: HairResult | None,
    training: TrainReport | None,
) -> dict[str, Any]:
    camera: Camera = fit.camera
    depth = float(camera.to_camera(np.zeros(3))[2])
    outline_px = with_field.outline_px / picture.scale
    mm_per_px = depth / float(camera.intrinsics[0, 0]) * 1000  # of the photo
    typical = (with_field.typical_px, with_field.typical_crown_px)
    typical_mm = [None if px is None else round(px / picture.scale * mm_per_px, 2) for px in typical]
    return {
        "camera": {**camera.to_json(), "focal_range_px": fit.focal_range_px},
        "motion": fit.motion.to_json(),
        "faces_found": faces_found,
        "pupil_distance_mm": None if fit.size is None else round(fit.size.pupil_distance_mm, 1),
        "size_by_iris": None if fit.size_by_iris is None else round(fit.size_by_iris, 4),
        "landmark_error_px": round(float(fit.residual_px.mean()), 3),
        "landmark_error_iod_pct": round(fit.residual_iod_pct, 3),
        "photo_psnr_db": round(with_field.psnr_db, 2),
        "photo_psnr_db_texture_only": round(without.psnr_db, 2),
        "silhouette_error_px": round(outline_px, 3),
        "silhouette_error_mm": round(outline_px * mm_per_px, 2),
        "silhouette_iou": round(with_field.iou, 4),
        "outline_error_mm": typical_mm[0],
        "crown_error_mm": typical_mm[1],
        "crown_iou": None if with_field.crown_iou is None else round(with_field.crown_iou, 4),
        "valid_yaw_deg": list(avatar.valid_yaw_deg),
        "hair": hair is not None and hair.shells is not None,
        "training": None if training is None else training.to_json(),
        "bake": None if avatar.baked is None else _bake_figures(avatar.baked),
    }


def _bake_figures(baked: BakedField) -> dict[str, Any]:
    """What baking lost against the live field, dB, and in how many directions its textures follow the motion code."""
    figures = {
        "psnr_skin_db": baked.psnr_skin_db,
        "psnr_hair_db": baked.psnr_hair_db,
        "psnr_moved_skin_db": baked.psnr_moved_skin_db,
        "psnr_moved_hair_db": baked.psnr_moved_hair_db,
    }
    return {**{name: round(value, 2) for name, value in figures.items()}, "motion_directions": len(baked.motion)}
