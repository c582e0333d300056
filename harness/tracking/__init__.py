"""The MLflow record of sweeps, and what keeps it complete while a server is away."""
