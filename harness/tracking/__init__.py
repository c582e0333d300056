"""The record of sweeps by a tracker (MLflow, JSON lines), and what keeps it complete while a server is away."""
