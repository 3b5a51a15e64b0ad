"""Never finishes being imported."""
# task: relu
# expect: timeout
# options: timeout=4

while True:
    pass
