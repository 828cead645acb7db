"""Tools: what runs when a model calls one, the arguments it gets and the result that is read. Knows no provider and no check."""
