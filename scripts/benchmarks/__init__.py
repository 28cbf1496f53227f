"""The benchmarks of `scripts/bench`: a module for each subcommand, and what the modules share."""
