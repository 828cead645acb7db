"""What a person starts: settings, wiring, the command line and the embedded local cluster."""
