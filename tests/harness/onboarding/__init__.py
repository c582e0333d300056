"""Tests of onboarding."""
