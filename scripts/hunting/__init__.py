"""The hunt for violations on real servers: what scripts/hunt is made of."""
