"""What stands behind tocha.ops and tocha.library: arguments against schemas, tags, custom operators."""
