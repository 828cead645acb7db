"""Judging: questions of checks to models, and what their answers are worth.

`Bench` is the way in. Knows providers and prompts of a bundle; must not know how conversations are held, nor which score passes.
"""
