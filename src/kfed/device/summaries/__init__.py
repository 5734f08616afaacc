"""Fine summaries of a device, for whoever gives no number of local clusters."""
