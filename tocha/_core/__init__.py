"""What the library stands on beside the native module: loading it, switches of the program, errors, limits of dtypes."""
