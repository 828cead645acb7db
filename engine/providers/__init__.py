"""Providers: what speaks a model's protocol. `port.py` says what every adapter must keep; knows neither scenarios nor checks."""
