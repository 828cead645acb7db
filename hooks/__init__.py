"""HTTP that others call or that calls others: webhooks of git hosts, admission, commit statuses. Nothing of it is built yet."""
