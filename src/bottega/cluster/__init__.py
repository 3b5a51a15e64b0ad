"""The same work on Ray (`bottega[cluster]`): nothing else imports this package unless a cluster is named."""
