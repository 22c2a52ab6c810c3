"""Applications over a path, beyond what one flow does: `web`, pages of objects."""
