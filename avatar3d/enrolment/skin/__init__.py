"""The skin's colour atlas: what the photo shows of each point, its light, and what no photo shows: lids, teeth, the far cheek."""
