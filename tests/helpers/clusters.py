"""Ray clusters of two nodes on this machine."""

from contextlib import contextmanager

import pytest

from jnpl.internal.ray_cluster import CLUSTER_SETTINGS

STORE = 80 * 2**20  # bytes: the least that Ray takes


@contextmanager
def two_nodes(**each):
    """Yield the address of a cluster of two nodes of one core each, and what else `each` says."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in CLUSTER_SETTINGS.items():
            patch.setenv(name, value)
        cluster = Cluster()
        _add_node(cluster, include_dashboard=False, **each)
        _add_node(cluster, **each)
        yield cluster.address
        cluster.shutdown()


def _add_node(cluster, **node):
    """Add a node, again if its agents have not started within the 15 seconds that Ray gives them."""
    for left in reversed(range(10)):
        try:
            return cluster.add_node(**node, num_cpus=1, object_store_memory=STORE)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
    return None
