"""One task from the selection of skills to the proposal of new ones, as plain control flow over injected parts."""
