"""Memory planning: schedules, live ranges, buffer assignment."""
