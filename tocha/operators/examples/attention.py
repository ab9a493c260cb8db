"""Examples of tocha/operators/attention.py."""


def nn_scaled_dot_product_attention():
    """
    >>> q = tocha.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> tocha.nn.functional.scaled_dot_product_attention(q, q, q)
    tensor([[[0.6698, 0.3302],
             [0.3302, 0.6698]]])
    >>> tocha.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    tensor([[[1.0000, 0.0000],
             [0.3302, 0.6698]]])
    """
