"""Carries out actions: one executor per action type."""
