"""All layers: what `tocha.nn.modules` hands on when one of them is first named."""

from tocha.nn.modules.activation import *  # noqa: F403
from tocha.nn.modules.adaptive import *  # noqa: F403
from tocha.nn.modules.batchnorm import *  # noqa: F403
from tocha.nn.modules.channelshuffle import *  # noqa: F403
from tocha.nn.modules.container import *  # noqa: F403
from tocha.nn.modules.conv import *  # noqa: F403
from tocha.nn.modules.distance import *  # noqa: F403
from tocha.nn.modules.dropout import *  # noqa: F403
from tocha.nn.modules.flatten import *  # noqa: F403
from tocha.nn.modules.fold import *  # noqa: F403
from tocha.nn.modules.instancenorm import *  # noqa: F403
from tocha.nn.modules.linear import *  # noqa: F403
from tocha.nn.modules.linear_cross_entropy_options import *  # noqa: F403
from tocha.nn.modules.loss import *  # noqa: F403
from tocha.nn.modules.module import Module  # noqa: F401
from tocha.nn.modules.normalization import *  # noqa: F403
from tocha.nn.modules.padding import *  # noqa: F403
from tocha.nn.modules.pixelshuffle import *  # noqa: F403
from tocha.nn.modules.pooling import *  # noqa: F403
from tocha.nn.modules.rnn import *  # noqa: F403
from tocha.nn.modules.sparse import *  # noqa: F403
from tocha.nn.modules.transformer import *  # noqa: F403
from tocha.nn.modules.upsampling import *  # noqa: F403

# The classes only: submodules such as utils must not reach tocha.nn by its star import.
__all__ = [_name for _name in globals() if _name[0].isupper()]
