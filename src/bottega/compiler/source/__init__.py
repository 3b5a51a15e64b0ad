"""Python source as data: which names a file binds and reads, and mistakes that are certain to fail. Nothing is run."""
