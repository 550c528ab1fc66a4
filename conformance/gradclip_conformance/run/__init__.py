"""Run cases: host processes, environments, the runner, and the search for failing inputs."""
