"""Git: hosted repositories, the smart-HTTP server before them, refs and snapshots.

Owns everything under the content volume's `arena/repos` and `arena/sources`. Must not know what a job, a run or an evaluation is, and
imports nothing of `engine`, `reconcile`, `hooks` or `arena`. dulwich and the git binary are used here and nowhere else.
"""
