"""What all operators share: base class, schemas, fixed-point arithmetic, reading of float nodes."""
