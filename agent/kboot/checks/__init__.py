"""Doctor's questions, one per file: pure functions of facts."""
