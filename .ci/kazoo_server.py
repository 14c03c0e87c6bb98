# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that has kazoo's tests use the server at $KAZOO_SERVER.

Their own harness starts a cluster of servers. What stops one of those is skipped.
"""
import os
import time

import pytest
from kazoo.recipe.lock import Lock
from kazoo.testing import harness


def restarts(*_args, **_kwargs):
    pytest.skip("stops a server")


class Server:
    running = True
    address = os.environ["KAZOO_SERVER"]
    run = stop = reset = destroy = staticmethod(restarts)


class Cluster(list):
    stop = reset = staticmethod(restarts)

    def start(self):
        pass

    terminate = start


cluster = Cluster([Server()])
harness.get_global_cluster = lambda: cluster

# test_lock waits for a moment at which no thread has the lock, and hangs if it
# misses that. With a server this near the moment has to be made longer.
release = Lock.release


def release_late(lock):
    time.sleep(0.05)
    return release(lock)


Lock.release = release_late
