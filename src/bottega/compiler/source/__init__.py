"""Python source as data: which names a file binds and reads, and slips that are certain to fail. Nothing is run."""
