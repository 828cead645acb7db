"""What is wrong with an installation, in words: one module a part of it. Looks only: nothing is made, repaired or removed."""
