"""How the neural field is trained, and what a training says of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class TrainOptions:
    """How to train; each weight multiplies a mean square in sRGB units (or of opacity)."""

    iterations: int = 450
    """Steps: about 1.3 s on an idle core; more fit what they see better and held-out pixels no better."""
    batch_skin_pixels: int = 256
    """Pixels of skin a step; four times as many gain the held-out pixels nothing."""
    batch_hair_pixels: int = 384
    """Pixels with hair a step; with 1024 the held-out ones come out 0.1 dB worse, as they are fitted more closely."""
    batch_points: int = 320
    """The teacher's points a step, each in six directions."""
    seconds_budget: float = 90.0
    """Plan for this many seconds of processor time at most: an emergency stop for very slow machines, as a run that it
    shortens is another on each."""
    seed: int = 0
    """Seed of everything random."""
    threads: int = 1
    """Threads of torch and numba: a second one pays on an idle machine only, and where cores are shared it costs dearly."""
    implementation: str = "numba"
    """Back end of the hash grid: numba (CPU), torch, its slow twin, or tcnn (CUDA)."""
    device: str = "cpu"
    """Where the field is while it is trained: cpu, or cuda for torch and tcnn. Pictures are composed on the CPU."""
    photo_weight: float = 1.0
    """Colour at the photo's camera."""
    coverage_weight: float = 0.5
    """Opacity of the hair at the photo's camera."""
    hairline_share: float = 0.3
    """Of coverage_weight, where skin lies behind the hair: the hair mask is less sure there than the matte's rim."""
    skin_share: float = 0.1
    """Of the two colour weights, on skin: its texture holds what the photo shows already."""
    generator_weight: float = 0.25
    """Colour of the generator's views, times their confidence: carried from the one photo, they add little."""
    any_view_share: float = 0.75
    """Share of picture batches whose colours and opacities are taught for random views: one photo has no view term to tell."""
    teacher_weight: float = 1.0
    """Residual against the reflectance model, both less their mean over views."""
    skin_mean_weight: float = 4.0
    """Square of the skin's mean residual over views: the field must not repaint the person."""
    hair_mean_weight: float = 0.02
    """The same for hair that faces the photo's camera, whose colour the photo may correct."""
    unseen_mean_weight: float = 1.0
    """The same for hair that the photo does not show."""
    opacity_weight: float = 0.02
    """Square of the opacity change: none without evidence."""
    hidden_opacity_weight: float = 0.5
    """The same where other hair lies in front, where hair faces away, and on the opaque level, which could be torn open."""
    behind_cosine: float = -0.3
    """Hair that faces the photo's camera by less lies behind the rim: hidden."""
    table_decay: float = 1.0
    """Decoupled weight decay of the hash tables: entries that no evidence holds fade instead of adding noise elsewhere."""
    any_expression_share: float = 0.5
    """Share of picture batches at the neutral or a random expression: what one photo shows is not the expression's doing."""


@dataclass(frozen=True)
class TrainReport:
    """What training did; `off` is without the field, `on` with it. None where there was nothing to measure.

    photo_psnr_db: sRGB at the photo's camera, where the photo surely shows the person's skin or hair; heldout: in the blocks
    never trained on. rim_opacity_rmse: the hair's opacity against the matte on held-out pixels with nothing opaque behind.
    silhouette_px: mean distance of the hair's half-opacity outline to the matte's, whole picture. teacher_rmse_255: residual
    against the reflectance model at points never trained on, 1/255 of sRGB. generator_psnr_db: confident pixels of the
    generator's views. skin_mean_255: RMS over skin of the residual's mean over views, 1/255 of sRGB; skin_view_255: RMS of
    what varies with the view.
    """

    iterations: int
    seconds: float
    seconds_per_iteration: float
    implementation: str
    seed: int
    loss_first: float
    loss_last: float
    photo_psnr_db_off: float
    photo_psnr_db_on: float
    heldout_psnr_db_off: float
    heldout_psnr_db_on: float
    heldout_skin_psnr_db_off: float | None
    heldout_skin_psnr_db_on: float | None
    heldout_hair_psnr_db_off: float | None
    heldout_hair_psnr_db_on: float | None
    rim_opacity_rmse_off: float | None
    rim_opacity_rmse_on: float | None
    silhouette_px_off: float | None
    silhouette_px_on: float | None
    teacher_rmse_255_off: float
    teacher_rmse_255_on: float
    generator_psnr_db_off: float | None
    generator_psnr_db_on: float | None
    skin_mean_255: float
    skin_view_255: float

    def to_json(self) -> dict[str, object]:
        """Plain numbers by name."""
        return asdict(self)
