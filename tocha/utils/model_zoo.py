"""The older home of functions of tocha.hub."""

from tocha.hub import load_state_dict_from_url as load_url
from tocha.hub import tqdm as tqdm

__all__ = ["load_url"]
