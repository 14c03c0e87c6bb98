# SPDX-License-Identifier: Apache-2.0
"""Contenders that use kazoo's locks, told by a test what to do.

The first argument is the address of a ZooKeeper server, a second one the session
timeout in milliseconds, instead of 10 s. Each line of the input is
"client command argument..."; a client is a session and a thread of its own,
which begins with its first line, and carries out its commands one after the
other. Each line of the output is "client answer...". The commands and answers
are those of the program for Apache Curator beside this one. The end of the
input ends the program.
"""

import os
import queue
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

# What kazoo is to take for contenders beside its own nodes.
WRITERS = ["-lock-", "__WRIT__"]
READERS = ["__READ__"]

say_one = threading.Lock()


class Client(threading.Thread):
    def __init__(self, name, server, timeout):
        super().__init__(daemon=True)
        self.name, self.server, self.timeout = name, server, timeout
        self.lines = queue.Queue()
        self.locks = {}

    def say(self, answer):
        with say_one:
            print(self.name, answer, flush=True)

    def run(self):
        try:
            zk = KazooClient(hosts=self.server, timeout=self.timeout)
            zk.start()
            while True:
                self.obey(zk, self.lines.get().split())
        except Exception as e:
            self.say("failed %r" % e)

    def obey(self, zk, words):
        command, kind = words[:2]
        if command == "open":
            self.locks = {
                "mutex": Lock(zk, kind, extra_lock_patterns=WRITERS + READERS),
                "read": ReadLock(zk, kind, extra_lock_patterns=WRITERS),
                "write": WriteLock(zk, kind, extra_lock_patterns=WRITERS + READERS),
            }
            self.say("opened")
        elif command == "acquire":
            self.locks[kind].acquire()
            self.say("acquired " + kind)
        elif command == "try":
            got = self.locks[kind].acquire(blocking=False)
            self.say(("acquired " if got else "refused ") + kind)
        elif command == "release":
            self.locks[kind].release()
            self.say("released " + kind)
        elif command == "loop":
            for _ in range(int(words[2])):
                self.locks[kind].acquire()
                self.say("enter " + kind)
                self.lines.get()
                time.sleep(0.001)
                self.say("leave " + kind)
                self.lines.get()
                self.locks[kind].release()
            self.say("done " + kind)
        else:
            raise ValueError(command)


def main():
    timeout = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 10.0
    clients = {}
    for line in sys.stdin:
        name, rest = line.rstrip("\n").split(" ", 1)
        if name not in clients:
            clients[name] = Client(name, sys.argv[1], timeout)
            clients[name].start()
        clients[name].lines.put(rest)
    sys.stdout.flush()
    os._exit(0)


main()
