"""Trials on executors: coordinator, isolated children, and the stages that run in them."""
