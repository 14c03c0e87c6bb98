# SPDX-License-Identifier: Apache-2.0
"""Candidates that use kazoo's Election. See Leaders.java beside this.

Arguments: the address of a ZooKeeper server, "kazoo", the election's path, the path of the
marks, how many clients, how many terms each.
"""

import os
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.election import Election

server, kind, path, marks, clients, terms = sys.argv[1:]


def run(name):
    try:
        zk = KazooClient(hosts=server)
        zk.start()
        election = Election(zk, path, name)
        election.lock = zk.Lock(path, name, extra_lock_patterns=["-lock-"])

        def lead():
            for what in "enter ", "leave ":
                zk.create(marks + "/m", (what + name).encode(), sequence=True)

        for _ in range(int(terms)):
            election.run(lead)
        zk.stop()
    except Exception as e:
        print(repr(e), file=sys.stderr, flush=True)
        os._exit(1)


threads = [threading.Thread(target=run, args=(kind + str(i),)) for i in range(int(clients))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
