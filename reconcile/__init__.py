"""The control plane: kinds, the cluster client, the controller runtime, and one controller a kind.

Knows git and evaluation only through `gitops` and `engine`; knows no HTTP server and no command line.
"""
