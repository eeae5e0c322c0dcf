"""Lessons: texts, exercises, and the checker that runs a student's file. See docs/teaching.md."""
