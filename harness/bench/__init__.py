"""What ``ptqlab bench`` measures."""
