"""Results: lines of results.jsonl, the summary over accounting records, and the files of a settled run.

Owns every file name below a run's directory except the plan, and every key of `summary.json`. Must not know where records are kept
while a run lives (the queue), nor what a cluster's status looks like beyond the string map of `Summary.spec_summary`.
"""
