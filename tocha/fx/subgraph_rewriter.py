def replace_pattern(*a): pass
