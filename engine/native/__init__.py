"""Machine code that is built with the wheel: levels of CPUs, objects and the functions in them."""
