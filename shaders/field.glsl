// field(where, d): colour residual and opacity change, from the form this program is built for.
#if FIELD == FIELD_LIVE
#include "field_live.glsl"
#elif FIELD == FIELD_BAKED
#include "field_baked.glsl"
#endif
