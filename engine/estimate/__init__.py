"""Estimates: what a plan would ask, read, write, cost and take, before anything of it runs. Nobody is asked, and nothing is started."""
