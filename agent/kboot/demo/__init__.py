"""Programs that stand in for a Hub and a GPU engine on machines that have neither."""
