"""What a head wears: glasses, hats, clothes and the bust beneath them, each a mesh and a picture of its own."""
