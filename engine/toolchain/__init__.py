"""The original toolchain as a black box: commands of the user's run, their logs read."""
