"""How the latency model was fitted: measured compilations, the fit, its errors. Not part of the wheel."""
