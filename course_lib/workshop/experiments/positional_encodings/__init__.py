"""Lesson 05: what was measured beyond one run of its notebook, and what it shows."""
