"""HTTP that others call or that calls others. So far: deliveries of git hosts, which ask for a fetch.

Knows the cluster port and the kinds; must not know how a repository is fetched.
"""
