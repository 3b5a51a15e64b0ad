"""Imports a module that does not exist."""
# task: relu
# expect: compile_error,runtime_error

import a_module_that_nobody_has  # noqa: F401
