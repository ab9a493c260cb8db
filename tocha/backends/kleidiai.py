"""Arm's KleidiAI, which this build does not use."""


def is_available() -> bool:
    """Whether KleidiAI is in this build."""
    return False
