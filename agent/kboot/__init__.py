"""kboot takes a GPU node from power-on to a serving endpoint."""

__version__ = "0.1.0"
