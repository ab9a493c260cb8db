"""What poolings ask of their windows and inputs, and how they refuse, in PyTorch's words and order."""

from __future__ import annotations

from tocha.operators.record import rule


@rule
def is_adaptive_max(name: "str") -> "bool":
    return name in ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")


@rule
def per_dim(value: "int[]", dims: "int", what: "str", name: "str") -> "int[]":
    """One number for each spatial dim; a single one stands for all."""
    if len(value) == 1:
        return list(value) * dims
    if len(value) != dims:
        refuse_count(value, dims, what, name)
    return value


@rule
def refuse_count(value: "int[]", dims: "int", what: "str", name: "str") -> "none":
    if what == "output_size" and dims > 1:
        inside = f"{name}(): internal error: output_size.size()" if is_adaptive_max(name) else f"{name}: output_size"
        raise RuntimeError(f"[{name}] {inside} must be {dims}, but got {value}")
    if dims == 1:
        alone = (
            ""
            if name != "max_pool1d"
            else f"max_pool1d() {what} must be an int, list of ints or tuple of ints of size 1 but got size {len(value)}: "
        )
        raise RuntimeError(f"[{name}] {alone}{name}() argument '{what}' should contain one int (got {len(value)})")
    counts = "two" if dims == 2 else "three"
    either = "must be" if name == "avg_pool3d" else "must be either" if what == "dilation" else "must either be"
    omitted = "omitted, " if what == "stride" else ""
    raise RuntimeError(
        f"[{name}] {name}: {what} {either} {omitted}a single int, or a tuple of {counts} ints, but got {value}"
    )


@rule
def by_axis(prefix: "str", values: "int[]") -> "str":
    """dH: 1 dW: 2; one dim is the width of a picture of height 1."""
    width = f"{prefix}W: {values[-1]}"
    if len(values) == 1:
        return f"{prefix}H: 1 {width}"
    if len(values) == 2:
        return f"{prefix}H: {values[0]} {width}"
    return f"{prefix}T: {values[0]} {prefix}H: {values[1]} {width}"


@rule
def in_words(sizes: "int[]") -> "str":
    """3x5x5"""
    text = ""
    for i in range(len(sizes)):
        text = f"{text}x{sizes[i]}" if i > 0 else f"{sizes[i]}"
    return text


@rule
def alone_in_line(name: "str", what: "str", values: "int[]") -> "str":
    """What max_pool1d says before the words that all poolings share."""
    return f"max_pool1d() {what} must be greater than zero, but got {values[0]}: " if name == "max_pool1d" else ""


@rule
def check_padding(name: "str", kernel: "int", padding: "int", dilation: "int") -> "none":
    if padding < 0:
        raise RuntimeError(f"[{name}] pad must be non-negative, but got pad: {padding}")
    if padding > (dilation * (kernel - 1) + 1) // 2:
        raise RuntimeError(
            f"[{name}] pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} and dilation={dilation}"
        )


@rule
def check_windows(name: "str", kernel: "int[]", stride: "int[]", padding: "int[]", dilation: "int[]") -> "none":
    if name == "max_pool1d" and kernel[0] <= 0:
        raise RuntimeError(f"[max_pool1d] max_pool1d() kernel_size must be greater than zero, but got {kernel[0]}")
    if any(s == 0 for s in stride):
        raise RuntimeError(
            f"[{name}] {alone_in_line(name, 'stride', stride)}stride should not be zero, but got {stride}"
        )
    for i in range(len(kernel)):
        check_padding(name, kernel[i], padding[i], dilation[i])
    if any(k <= 0 for k in kernel):
        raise RuntimeError(f"[{name}] kernel size should be greater than zero, but got {by_axis('k', kernel)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"[{name}] {alone_in_line(name, 'stride', stride)}stride should be greater than zero, but got {by_axis('d', stride)}"
        )
    if any(d <= 0 for d in dilation):
        raise RuntimeError(
            f"[{name}] {alone_in_line(name, 'dilation', dilation)}dilation should be greater than zero, but got {by_axis('dilation', dilation)}"
        )


@rule
def is_picture(self: "Tensor", spatial: "int", name: "str") -> "bool":
    """(C, spatial...) or (N, C, spatial...), empty at most in N. Adaptive pooling asks less: some of it of the spatial
    dims alone, the rest of all dims but the first."""
    if self.ndim != spatial + 1 and self.ndim != spatial + 2:
        return False
    first = self.ndim - spatial - 1
    if name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d"):
        first = self.ndim - spatial
    elif is_adaptive_max(name) or name == "adaptive_avg_pool3d":
        first = 1
    return not any(n == 0 for n in self.shape[first:])


@rule
def refuse_picture(self: "Tensor", spatial: "int", name: "str") -> "none":
    low, high = spatial + 1, spatial + 2
    fits = self.ndim == low or self.ndim == high
    if spatial == 1 and not fits and name != "max_pool1d":
        raise RuntimeError(
            f"[{name}] Expected 2 to 3 dimensions, but got {self.ndim}-dimensional tensor for argument #1 'self' (while checking arguments for {name})"
        )
    if is_adaptive_max(name) or name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"):
        if not fits:
            mark = ":" if is_adaptive_max(name) else ""
            raise RuntimeError(f"[{name}] {name}(): Expected {low}D or {high}D tensor, but got{mark} {self.shape}")
        empty = self.ndim - 1
        for d in reversed(range(self.ndim)):
            empty = d if self.shape[d] == 0 else empty
        raise RuntimeError(
            f"[{name}] {name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {self.shape} with dimension {empty} being empty"
        )
    if spatial == 3 and fits:
        raise RuntimeError(
            f"[{name}] Expected input's non-batch dimensions to have positive length, but input has a shape of {self.shape}"
        )
    if spatial > 1 and not fits:
        raise RuntimeError(
            f"[{name}] non-empty {low}D or {high}D (batch mode) tensor expected for input, but got: {self.shape}"
        )
    raise RuntimeError(
        f"[{name}] Expected {low}D or {high}D (batch mode) tensor with optional 0 dim batch size for input, but got:{self.shape}"
    )


@rule
def check_picture(self: "Tensor", spatial: "int", name: "str") -> "none":
    if not is_picture(self, spatial, name):
        refuse_picture(self, spatial, name)


@rule
def refuse_output(self: "Tensor", kernel: "int[]", sizes: "int[]", name: "str") -> "none":
    """Windows that do not fit even once."""
    first = self.ndim - len(kernel)
    given = self.shape[first - 1 :]
    if name == "avg_pool3d":
        raise RuntimeError(
            f"[{name}] input image (T: {given[1]} H: {given[2]} W: {given[3]}) smaller than kernel size ({by_axis('k', kernel)})"
        )
    if len(kernel) == 1:
        alone = f"max_pool1d() Invalid computed output size: {sizes[0]}: " if name == "max_pool1d" else ""
        raise RuntimeError(
            f"[{name}] {alone}Given input size: ({given[0]}x1x{given[1]}). Calculated output size: ({given[0]}x1x{sizes[0]}). Output size is too small"
        )
    raise RuntimeError(
        f"[{name}] Given input size: ({in_words(given)}). Calculated output size: ({given[0]}x{in_words(sizes)}). Output size is too small"
    )
