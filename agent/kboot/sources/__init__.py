"""Where bytes come from; the only package that uses the network."""
