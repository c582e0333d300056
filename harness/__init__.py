"""The experiment harness: suites, trials, results, MLflow, gates, reports."""
