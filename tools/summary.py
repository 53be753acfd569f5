"""Print the figures of a demo run that a person wants first; reads what `enroll --json` and `evaluate --json` wrote."""

import json
import sys
from pathlib import Path


def main() -> None:
    """Arguments: the two JSON files."""
    enrolled, evaluated = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    rows = [
        ("landmark error", f"{enrolled['landmark_error_iod_pct']:.2f} % of the interocular distance"),
        (
            "photo re-rendered",
            f"{enrolled['photo_psnr_db']:.1f} dB ({enrolled['photo_psnr_db_texture_only']:.1f} dB without the field)",
        ),
        ("silhouette error", f"{enrolled['silhouette_error_px']:.2f} px"),
        ("avatar file", f"{enrolled['bytes'] / 1e6:.1f} MB"),
        ("enrolment", f"{enrolled['seconds']['total']:.1f} s"),
        ("stereo colour error", f"{evaluated['stereo']['rmse_255']:.2f} / 255"),
        ("disparity error p95", f"{evaluated['stereo']['disparity_error_px_p95']:.3f} px"),
        ("controls ranked right", "yes" if evaluated["ranked_correctly"] else "NO"),
    ]
    for name, value in rows:
        print(f"  {name:22s} {value}")


if __name__ == "__main__":
    main()
