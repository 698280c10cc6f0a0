"""Methods by name."""

from typing import Any

from jnpl.internal.errors import InputError
from jnpl.methods.base import Method, MethodSettings, Task
from jnpl.methods.co_teaching import CoTeaching
from jnpl.methods.co_teaching_plus import CoTeachingPlus
from jnpl.methods.cores2 import CORES2
from jnpl.methods.dividemix import DivideMix
from jnpl.methods.elr import ELR
from jnpl.methods.elr_plus import ELRPlus
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.methods.forward import Forward
from jnpl.methods.gce import GCE
from jnpl.methods.jnpl_stable import JNPLStable
from jnpl.methods.jocor import JoCoR
from jnpl.methods.joint_optim import JointOptim
from jnpl.methods.limit import LIMIT
from jnpl.methods.m_correction import MCorrection
from jnpl.methods.metacleaner import MetaCleaner
from jnpl.methods.mlnt import MLNT
from jnpl.methods.nlnl import NLNL
from jnpl.methods.pencil import PENCIL
from jnpl.methods.plain import CE, MAE, NCERCE, NFLRCE, SCE
from jnpl.methods.refined_nl import RefinedNL
from jnpl.methods.sop import SOP
from jnpl.methods.sop_plus import SOPPlus

METHODS: dict[str, type[Method]] = {
    "ce": CE,
    "mae": MAE,
    "gce": GCE,
    "sce": SCE,
    "nce-rce": NCERCE,
    "nfl-rce": NFLRCE,
    "co-teaching": CoTeaching,
    "jocor": JoCoR,
    "nlnl": NLNL,
    "jnpl": ExtendedJNPL,
    "jnpl-stable": JNPLStable,
    "refined-nl": RefinedNL,
    "forward": Forward,
    "m-correction": MCorrection,
    "limit": LIMIT,
    "joint-optim": JointOptim,
    "metacleaner": MetaCleaner,
    "mlnt": MLNT,
    "pencil": PENCIL,
    "co-teaching-plus": CoTeachingPlus,
    "dividemix": DivideMix,
    "elr": ELR,
    "elr-plus": ELRPlus,
    "cores2": CORES2,
    "sop": SOP,
    "sop-plus": SOPPlus,
}


def settings_class(name: Any) -> type[MethodSettings]:
    """Return the settings class of the method `name`."""
    if name not in METHODS:
        raise InputError(f"setting method.name: there are {', '.join(METHODS)}, got {name!r}")
    return METHODS[name].Settings


def make(task: Task, settings: MethodSettings) -> Method:
    """Build the method that the settings name, with its networks."""
    maker: Any = METHODS[settings.name]  # every method takes its own settings class
    method: Method = maker(task, settings)
    return method


def table() -> list[dict[str, Any]]:
    """Return the facts about each method that `jnpl methods` prints, one row per method."""
    return [
        {
            "name": name,
            "paper": method.paper,
            "networks": method.networks,
            "stages": [stage.name for stage in method.stages],
            "needs": method.needs,
            "score": method.score,
        }
        for name, method in METHODS.items()
    ]
