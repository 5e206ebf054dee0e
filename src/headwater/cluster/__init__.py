"""What exists and who leads: the cluster image, the controller's decisions, the metadata stores."""
