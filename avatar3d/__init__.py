"""avatar3d: human head avatars from one photo, a hybrid of a morphable mesh and a neural field; import the parts you need."""

__version__ = "0.1.0"
