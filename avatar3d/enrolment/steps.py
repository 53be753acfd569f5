"""What each stage of enrolment does: it asks the parts for their work, and binds what they found to the state. No list, no clock."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date

from avatar3d import __version__
from avatar3d.choices import Form
from avatar3d.enrolment.assembly import assemble
from avatar3d.enrolment.field.train import train
from avatar3d.enrolment.field.view_term import settle_texture
from avatar3d.enrolment.figures import agreement_figures, bake_figures, fit_figures
from avatar3d.enrolment.hair.assemble import build_hair
from avatar3d.enrolment.hair.refine import refine_hair as refined_hair
from avatar3d.enrolment.hair.refine import settle_hair
from avatar3d.enrolment.photo.crop import crop
from avatar3d.enrolment.photo.hidden import find_hidden
from avatar3d.enrolment.photo.metrics import agreement
from avatar3d.enrolment.photo.rim import Rim
from avatar3d.enrolment.photo.segment import WORK_IOD_PX, segment
from avatar3d.enrolment.photo.taken import light_ratio, sharpness
from avatar3d.enrolment.shape.reach import learn_reach
from avatar3d.enrolment.shape.silhouette import meet_silhouette
from avatar3d.enrolment.skin.atlas import build_skin, view_skin
from avatar3d.enrolment.skin.projection import Covers
from avatar3d.enrolment.state import LATER, Enrolment
from avatar3d.enrolment.verdict import Evidence, is_grey, judge, likeness_of
from avatar3d.enrolment.worn.attach import put_on
from avatar3d.enrolment.worn.clothes import dress
from avatar3d.enrolment.worn.glasses import find_glasses, without_glasses
from avatar3d.enrolment.worn.glasses_mesh import glasses_parts, temple_lines
from avatar3d.enrolment.worn.hat import build_hat
from avatar3d.face import FaceTracker
from avatar3d.field.bake import bake
from avatar3d.field.network import check_back_end
from avatar3d.fitting.fit import fit_face
from avatar3d.fitting.given import given_head
from avatar3d.fitting.size import check_pupil_distance, head_size, to_size
from avatar3d.generator import generator_of, paint
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.glb import write_glb
from avatar3d.photo import given_photo
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.fragments import fragments_kept
from avatar3d.rendering.reference.renderer import ReferenceRenderer

TRAINED, SETTLED = 0.64, 0.87  # of the field's time: when its training is over, and when its colours are settled


def read_photo(state: Enrolment) -> Enrolment:
    """Read the photo; what cannot work is refused before anything else is done."""
    options = state.options
    check_pupil_distance(options.pupil_distance_mm)
    if options.field:
        check_back_end(options.field_backend, options.device)
    if state.target is not None:
        state.target.check()
    photo, name, digest = given_photo(state.source)
    generator_name, make_generator = generator_of(options.generator)
    found = replace(state, photo=photo, name=name, digest=digest, generator_name=generator_name, make_generator=make_generator)
    return found.told(*photo.notes)


def find_face(state: Enrolment) -> Enrolment:
    """The face, its landmarks and its expression."""
    tracker, options = FaceTracker(), state.options
    face = tracker.track(state.photo.rgb, options.face_index, options.face_box, state.name)
    return replace(state, tracker=tracker, face=face).told(*face.notes, faces_found=face.faces_found)


def fit_head(state: Enrolment) -> Enrolment:
    """Camera, identity, expression and size, from the landmarks."""
    height, width = state.photo.rgb.shape[:2]
    landmarks, model = state.face.landmarks, given_head(state.options.head)
    unsized = fit_face(landmarks, state.face.blendshapes, width, height, state.photo.focal_px, model)
    fit, head = to_size(unsized, model, head_size(unsized, landmarks, model, state.options.pupil_distance_mm))
    return replace(state, landmark_fit=fit, head=head)


def segment_photo(state: Enrolment) -> Enrolment:
    """What is what in the photo, and the fit that meets its outline."""
    rgb, first = state.photo.rgb, state.landmark_fit
    coarse = crop(rgb, first.camera, state.landmarks_px, WORK_IOD_PX, state.options.tuning.segment_size_px)
    others = [coarse.to_work(box.box_px.reshape(2, 2)).ravel() for box in state.tracker.others(rgb, state.face)]
    segmentation = segment(coarse, neighbours=others)
    fit = meet_silhouette(first, state.head, coarse, segmentation)
    hidden = find_hidden(coarse, segmentation.labels)
    found = replace(
        state, coarse=coarse, segmentation=segmentation, fit=fit, hidden=hidden, uncovered=hidden.filled(rgb, coarse)
    )
    return found.told(*segmentation.notes, *hidden.notes(), **fit_figures(fit))


def take_off_glasses(state: Enrolment) -> Enrolment:
    """Glasses, and the photo without them."""
    glasses = find_glasses(state.photo.rgb, state.landmarks_px)
    if glasses is None:
        return replace(state, bare=state.uncovered)
    temples = temple_lines(glasses, state.fit.camera, state.fit.neutral_vertices, state.head)
    bare, _ = without_glasses(state.uncovered, state.landmarks_px, glasses, temples)
    return replace(state, glasses=glasses, bare=bare).told(*glasses.notes(state.options.remove_glasses))


def estimate_light(state: Enrolment) -> Enrolment:
    """Which skin the photo shows, and under which light."""
    fine = state.picture(state.bare, state.options.tuning.max_texture_iod_px)
    labels = state.segmentation.labels
    lying = labels.clothes | labels.hat | labels.hand | labels.glasses | labels.completed | state.hidden.area
    covers = Covers(*(state.on(fine, mask) for mask in (labels.beard, lying, labels.neck)))
    matte, strands = (state.on(fine, mask) for mask in (state.segmentation.matte, state.segmentation.hair_alpha))
    return replace(state, view=view_skin(fine, state.fit, state.head, matte, strands, covers))


def wants_hair(state: Enrolment) -> bool:
    """Whether hair is asked for."""
    return state.options.hair


def grow_hair(state: Enrolment) -> Enrolment:
    """The hair's shells."""
    view = state.view
    hair = build_hair(state.coarse, state.segmentation, state.fit, state.head, view.light, view.shading_power)
    return replace(state, hair=hair).told(*hair.notes)


def wears_hat(state: Enrolment) -> bool:
    """Whether the photo shows a hat on the hair's surface."""
    return state.hair is not None and state.hair.shape is not None and bool(state.segmentation.labels.hat.any())


def make_hat(state: Enrolment) -> Enrolment:
    """The hat, and the hair under it."""
    assert state.hair is not None and state.hair.shape is not None
    label, vertices, view = state.segmentation.labels.hat, state.fit.neutral_vertices, state.view
    hat = build_hat(state.coarse, label, state.hair.shape, vertices, view.light, view.shading_power, _atlas_size(state))
    return state if hat is None else replace(state, hat=hat, hair=state.hair.under_hat(hat.covers, hat.tuck))


def paint_skin(state: Enrolment) -> Enrolment:
    """The skin's atlas, and the first avatar."""
    view, hair = state.view, state.hair
    dark_lenses = state.glasses is not None and state.glasses.dark
    skin = build_skin(
        view,
        state.on(view.picture, state.segmentation.hair_alpha),
        None if hair is None else hair.scalp_mask,
        None if hair is None else hair.scalp_color_srgb,
        size=_atlas_size(state),
        unseen=frozenset(name for name, lost in (("eyes", dark_lenses), ("mouth", state.hidden.mouth)) if lost),
    )
    valid_yaw_deg = state.options.tuning.valid_yaw_deg
    avatar = assemble(state.head, state.fit, skin, hair, state.face.landmarks.yaw_rad, valid_yaw_deg)
    figures = {"valid_yaw_deg": list(avatar.valid_yaw_deg), "hair": hair is not None and hair.shells is not None}
    return replace(state, skin=skin, avatar=avatar, view=LATER).told(**figures)


def _atlas_size(state: Enrolment) -> int:
    tuning = state.options.tuning
    return tuning.large_atlas_size if state.fit.iod_px > tuning.large_atlas_iod_px else tuning.atlas_size


def reach_weights(state: Enrolment) -> Enrolment:
    """What a tracker's answers mean on this head."""
    reach = learn_reach(state.avatar, state.face.blendshapes, state.tracker)
    return replace(state, avatar=replace(state.avatar, reach=reach))


def put_on_clothes(state: Enrolment) -> Enrolment:
    """Bust, hat and glasses; and the photo as the finished head shows it, for what is solved from it."""
    rgb, fit, head, segmentation = state.photo.rgb, state.fit, state.head, state.segmentation
    clothes = dress(rgb, state.landmarks_px, fit, head, state.coarse, segmentation, state.avatar)
    worn = [clothes.part] if state.hat is None else [clothes.part, state.hat.part]
    if state.glasses is not None and state.glasses_kept:
        worn += glasses_parts(state.glasses, fit.camera, fit.neutral_vertices, head)
    avatar = put_on(replace(state.avatar, vertices=clothes.vertices), worn, clothes.hidden)

    seen = state.picture(state.shown, state.options.tuning.max_evidence_iod_px)
    strands = segmentation.hair_alpha if state.hat is None else segmentation.without_hat().hair_alpha
    matte, hair_alpha = (state.on(seen, mask) for mask in (segmentation.matte, strands))
    evidence = PhotoEvidence(seen.rgb, seen.camera, fit.motion, matte, hair_alpha)
    generator = state.make_generator(evidence)
    return replace(state, avatar=avatar, seen=seen, evidence=evidence, generator=generator).told(*clothes.notes)


def at_the_photo(state: Enrolment) -> AbstractContextManager[None]:
    """Around the stages that draw the head at the photo's camera, newly coloured: its fragments are made once for each shape."""
    return fragments_kept(state.evidence.camera)


def refine_hair(state: Enrolment) -> Enrolment:
    """Hair that agrees with the photo at its camera."""
    return replace(state, avatar=refined_hair(state.avatar, state.evidence, None if state.hair is None else state.hair.growth))


def wants_field(state: Enrolment) -> bool:
    """Whether the field is asked for."""
    return state.options.field


def train_field(state: Enrolment) -> Enrolment:
    """The field: trained, its share in the photo's own view taken out of the textures, baked."""
    options, evidence, tuning = state.options, state.evidence, state.options.tuning
    params, training = train(
        state.avatar,
        evidence,
        state.generator,
        replace(tuning.training, seed=options.seed, implementation=options.field_backend, device=options.device),
        tuning.field_sizes,
        progress=lambda share, does: state.progress(TRAINED * share, does),
    )
    avatar = replace(state.avatar, neural_field=params)
    avatar = replace(avatar, base_color=settle_texture(avatar, evidence.motion, evidence.camera))
    avatar = settle_hair(avatar, evidence)
    state.progress(SETTLED, "baking the field")
    return replace(state, avatar=replace(avatar, baked=bake(avatar)), training=training)


def generator_paints(state: Enrolment) -> bool:
    """Whether the generator draws what belongs into the texture: all do but those that say they do not."""
    return state.generator is not LATER and bool(getattr(state.generator, "paints", True))


def paint_drawn(state: Enrolment) -> Enrolment:
    """What the generator changes in its views, in the texture."""
    return replace(state, avatar=paint(state.avatar, state.generator))


def compare(state: Enrolment) -> Enrolment:
    """How well the head comes back at the photo's camera, without its field and with it; and how it was made."""
    avatar, seen = state.avatar, state.seen
    renderer = ReferenceRenderer()
    person = state.on(seen, state.segmentation.person)
    results = []
    forms: tuple[Form, ...] = ("mesh",) if avatar.neural_field is None else ("mesh", "live")
    for form in forms:
        (frame,) = renderer.render(avatar, state.fit.motion, [seen.camera], RenderOptions(form=form))
        results.append(agreement(frame, seen.rgb, state.evidence.matte, seen.landmarks_px, seen.inside, person))
    renderer.close()
    training = state.training
    provenance: dict[str, object] = {
        "made_by": f"avatar3d {__version__}",
        "date": date.today().isoformat(),
        "photo_sha256": state.digest,
        "head": "assets/head.npz",
        "generator": state.generator_name,
        "seed": state.options.seed,
        "segmentation_confidence": round(state.segmentation.confidence, 3),
        "photo_coverage": round(state.skin.coverage, 3),
        "training": None if training is None else training.to_json(),
    }
    found = replace(state, avatar=replace(avatar, provenance=provenance), agreement=results[-1])
    figures = agreement_figures(state.fit, seen, results[0], results[-1])
    told = None if training is None else training.to_json()
    return found.told(**figures, training=told, bake=bake_figures(avatar.baked))


def judge_avatar(state: Enrolment) -> Enrolment:
    """The verdict."""
    figures, with_field = state.figures, state.agreement
    dark_lenses = state.glasses is not None and state.glasses.dark
    evidence = Evidence(
        silhouette_mm=figures["silhouette_error_mm"],  # type: ignore[arg-type]
        silhouette_iou=figures["silhouette_iou"],  # type: ignore[arg-type]
        crown_mm=figures["crown_error_mm"],  # type: ignore[arg-type]
        crown_iou=figures["crown_iou"],  # type: ignore[arg-type]
        outline_mm=figures["outline_error_mm"],  # type: ignore[arg-type]
        face_psnr_db=with_field.face_psnr_db,
        rim=with_field.rim or Rim(),
        bare_unlike_skin=state.segmentation.bare_unlike_skin,
        presence=state.face.landmarks.presence,
        sharpness=sharpness(state.photo.rgb, state.face.landmarks),
        light_ratio=light_ratio(state.photo.rgb, state.face.landmarks),
        glasses=state.glasses_kept,
        hidden=state.hidden.cause or ("sunglasses hide the eyes" if dark_lenses else ""),
        photo_psnr_db=figures["photo_psnr_db"],  # type: ignore[arg-type]
        seen_share=state.skin.coverage,
        iod_px=state.fit.iod_px,
        yaw_rad=state.face.landmarks.yaw_rad,
        grey=is_grey(state.photo.rgb),
        hair_confidence=state.segmentation.confidence,
        size_by_iris=state.fit.size_by_iris,
    )
    quality = judge(evidence, likeness_of(state.avatar, state.shown, state.face.landmarks))
    found = replace(state, quality=quality)
    poor = (quality.line(),) if quality.grade == "poor" else ()
    return found.told(*poor, quality={**quality.to_json(), "line": quality.line()})


def wants_file(state: Enrolment) -> bool:
    """Whether a file is asked for."""
    return state.target is not None


def write_file(state: Enrolment) -> Enrolment:
    """The avatar's file, whole or not at all."""
    target = state.target
    assert target is not None
    write_glb(state.avatar, target.path, target.jpeg, target.byte_field)
    return state.told(avatar=str(target.path), bytes=target.path.stat().st_size)
