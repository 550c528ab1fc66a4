"""Write the first files of a new adapter: a file that runs, claims, known failures, and a job for CI."""
