"""`python -m avatar3d.cli`: the same as the command `avatar3d`."""

from avatar3d.cli.program import main

raise SystemExit(main())
