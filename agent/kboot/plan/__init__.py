"""Decides what boot will do: pure functions of facts and profile."""
