"""Who may do what: the port that every server of ours asks, its adapters, and what the servers make of the answers.

Owns credentials, from the header to the decision. Must not know what a request that is let in goes on to do.
"""
