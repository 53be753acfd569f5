"""Hair from one photo: its surface over the scalp, the shells' colours and opacities, and strands where no photo shows any."""
