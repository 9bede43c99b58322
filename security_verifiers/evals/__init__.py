"""Planning, running and recording rollouts."""
