# SPDX-License-Identifier: Apache-2.0
"""kazoo's Lock as a contender of the stress harness, whose protocol docs/testing.md has.

A client is a thread. With the name "kazoo-listening" a holder takes its lock for lost when the
connection is suspended, as kazoo's documentation advises; with "kazoo" it hears of no loss. With
"-rw" in the name the locks are kazoo's WriteLock and ReadLock.
"""

import logging
import queue
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState

logging.disable(logging.CRITICAL)
saying = threading.RLock()  # also protects holders and connected
holders = set()
connected = False
session = None


def say(line):
    with saying:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def identity():
    """Returns the session; None: the library is not connected."""
    known = zk.client_id
    return known and hex(known[0] & (2**64 - 1))


def changed(state):
    """Tells of the session, and of locks that are taken for lost. It must not block."""
    global session, connected
    with saying:
        connected = state == KazooState.CONNECTED
        if connected:
            known, session = session, identity() or session
            say("session %s %s" % (session, "resumed" if known == session else "began"))
            return
        for client in holders:
            lost(client)
        if session is not None:
            say("session %s %s" % (session, "ended" if state == KazooState.LOST else "suspended"))


def lost(client):
    if listening:
        say("%s lost at=%d" % (client, time.monotonic_ns()))


def granted(client):
    """Says that the client has its lock. If the connection is lost by now, it says so, too."""
    with saying:
        by = identity()
        say("%s granted" % client + (" session=%s" % by if by else ""))
        holders.add(client)
        if not connected:
            lost(client)


def serve(client, orders):
    """Does what a client is told."""
    locks = {}
    held = None
    while True:
        _, command, path = orders.get()
        try:
            if command != "release":
                lock = locks.get((command, path))
                if lock is None:
                    lock = locks[command, path] = kinds[command](path, client)
                if not lock.acquire():
                    raise RuntimeError("acquire has returned False")
                held = lock
                granted(client)
            else:
                with saying:
                    holders.discard(client)
                held.release()
                say("%s released" % client)
        except Exception as e:  # any: a client's error must not end the program
            say("%s error %r" % (client, e))


def main():
    clients = {}
    zk.add_listener(changed)
    zk.start(timeout=50)
    say("ready")
    for line in sys.stdin:
        words = line.split()
        if words[0] not in clients:
            clients[words[0]] = queue.Queue()
            threading.Thread(target=serve, args=(words[0], clients[words[0]]), daemon=True).start()
        clients[words[0]].put(words)
    zk.stop()


listening = sys.argv[1].endswith("-listening")
zk = KazooClient(hosts=sys.argv[2], timeout=int(sys.argv[3]) / 1000)
kinds = {"acquire": zk.Lock}
if "-rw" in sys.argv[1]:
    kinds = {"acquire": zk.WriteLock, "acquire-shared": zk.ReadLock}
main()
