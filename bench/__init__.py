"""Comparisons and trials of the whole, one command each; `python -m bench` lists and runs them."""
