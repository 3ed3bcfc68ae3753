"""The checkpoint on disk: layout, ledger, verifier, partials."""
