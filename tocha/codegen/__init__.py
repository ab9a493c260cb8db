"""Code generation: formulas and loops of tocha.ir, written as C++ or Triton."""
