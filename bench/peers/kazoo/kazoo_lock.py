# SPDX-License-Identifier: Apache-2.0
"""kazoo's locks as a subject of the benchmarks: Lock and ReadLock; and its LockingQueue.

It reads jobs from its input and writes results to its output, one line of JSON
each, and measures as the subjects in Go do; see the Go package bench/internal/work, of
whose loops these are a translation.

A session is a KazooClient, a worker a thread. They all share Python's one
interpreter lock, so of what a session does between its requests nothing runs in
parallel, as it would in as many processes. For one lock, which one has at a time,
that matters little; for many locks, and for read locks, it does.
"""

import json
import logging
import os
import platform
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock
from kazoo.recipe.queue import LockingQueue
from kazoo.version import __version__

SESSION_SECONDS, OPEN_SECONDS = 10, 30

# How long a job may go on after it was measured.
GRACE_SECONDS = 60

# How many waits a result has at most.
MAX_WAITS = 5000

WARMING, MEASURING, OVER = range(3)


class Run:
    """One job."""

    def __init__(self, job):
        self.job = job
        self.stage = WARMING
        self.end = time.monotonic() + GRACE_SECONDS
        self.end += (job["warmupMillis"] + job["measureMillis"]) / 1e3
        self.failure = None  # the first one
        self.failed = threading.Event()

    def fail(self, failure):
        self.failure = self.failure or failure
        self.failed.set()

    def result(self, work):
        job, sessions = self.job, []
        try:
            live = []
            for _ in range(job["sessions"]):  # one connects while the next is made
                client = KazooClient(job["server"], timeout=SESSION_SECONDS)
                sessions.append(client)
                live.append(client.start_async())
            for event in live:
                if not event.wait(OPEN_SECONDS):
                    raise TimeoutError("no session at %s within %d s" % (job["server"], OPEN_SECONDS))
            return work(self, sessions)
        finally:
            for client in sessions:
                client.stop()
                client.close()

    def measure(self, sessions):
        job = self.job
        kind = ReadLock if job["read"] else Lock
        holders = [Holders() for _ in range(job["locks"])]
        workers = []
        for client in sessions:
            for i in range(job["workers"]):
                i %= job["locks"]
                lock = kind(client, "%s/lock-%d" % (job["dir"], i))
                workers.append(Worker(self, lock, holders[i]))
        for w in workers:
            w.start()
        seconds = self.clock()
        for w in workers:
            self.join(w)
        if self.failure:
            raise self.failure
        return {
            "entries": sum(w.entries for w in workers),
            "total": sum(w.total for w in workers),
            "fewest": min(w.entries for w in workers),
            "most": max(w.entries for w in workers),
            "seconds": seconds,
            "waits": sample(workers),
            "allocs": -1,
        }

    def queue(self, sessions):
        """Lets the sessions queue, and each in turn hold the lock, until the time
        is over."""
        locks = [Lock(client, self.job["dir"] + "/lock-0") for client in sessions]
        gaps, total = [], 0
        while total < 2 * len(locks) or time.monotonic() < self.end - GRACE_SECONDS:
            once = self.queue_once(locks)
            if total:  # the first time is not measured
                gaps += once[1:]
            total += len(locks)
        return {
            "entries": len(gaps),
            "total": total,
            "seconds": sum(gaps) / 1e6,
            "waits": [round(gap, 3) for gap in gaps[-MAX_WAITS:]],
            "allocs": -1,
        }

    def queue_once(self, locks):
        """Returns the times from a call of release to the next grant, in us. The
        first has none."""
        hold = self.job["holdMicros"] / 1e6
        holders, taken, gaps = Holders(), threading.Event(), [0.0] * len(locks)
        released = [0.0]  # when release was last called

        def turn(i):
            try:
                if i:
                    taken.wait()
                locks[i].acquire()
                gaps[i] = (time.perf_counter() - released[0]) * 1e6
                taken.set()
                if holders.change(+1) > 1:
                    raise RuntimeError("two sessions hold the lock")
                time.sleep(hold if i else hold + self.job["queueMillis"] / 1e3)
                holders.change(-1)
                released[0] = time.perf_counter()
                locks[i].release()
            except Exception as e:
                self.fail(e)

        turns = [threading.Thread(target=turn, args=(i,), daemon=True) for i in range(len(locks))]
        for t in turns:
            t.start()
        for t in turns:
            self.join(t)
        if self.failure:
            raise self.failure
        return gaps

    def drain(self, sessions):
        """Lets the sessions take all elements of a queue."""
        queues = [LockingQueue(client, self.job["dir"] + "/queue") for client in sessions]
        n = self.job["elements"]
        for i in range(0, n, 100):
            queues[0].put_all([bytes(100)] * min(100, n - i))
        left = iter(range(n))  # next is atomic
        self.end += n * 0.02

        def take(queue):
            try:
                for _ in left:
                    taken = False
                    while not taken:
                        queue.get()
                        taken = queue.consume()
            except Exception as e:
                self.fail(e)

        begin = time.monotonic()
        takers = [threading.Thread(target=take, args=(queue,), daemon=True) for queue in queues]
        for t in takers:
            t.start()
        for t in takers:
            self.join(t)
        if self.failure:
            raise self.failure
        return {"entries": n, "total": n, "seconds": time.monotonic() - begin, "allocs": -1}

    def clock(self):
        """Takes the workers through the stages; returns for how many seconds
        they were measured."""
        self.failed.wait(self.job["warmupMillis"] / 1e3)
        begin = time.monotonic()
        self.stage = MEASURING
        self.failed.wait(self.job["measureMillis"] / 1e3)
        self.stage = OVER
        return time.monotonic() - begin

    def join(self, worker):
        """Waits until a worker is done, or one has failed, or time is up."""
        while worker.is_alive() and not self.failure:
            if time.monotonic() > self.end:
                self.fail(TimeoutError("the workers are not done %d s after they were measured" % GRACE_SECONDS))
            worker.join(0.05)


class Holders:
    """Counts the holders of a lock, and detects two holders of an exclusive lock."""

    def __init__(self):
        self.one = threading.Lock()
        self.number = 0

    def change(self, by):
        with self.one:
            self.number += by
            return self.number


class Worker(threading.Thread):
    """A thread that takes and releases a lock until it is over."""

    def __init__(self, run, lock, holders):
        super().__init__(daemon=True)
        self.measured, self.lock, self.holders = run, lock, holders
        self.entries = self.total = 0  # while it was measured, and ever
        self.waits, self.stride = [], 1  # in us, of every stride-th entry

    def run(self):
        try:
            self.contend()
        except Exception as e:
            self.measured.fail(e)

    def contend(self):
        hold = self.measured.job["holdMicros"] / 1e6
        most = sys.maxsize if self.measured.job["read"] else 1
        while True:
            timed = self.total % self.stride == 0
            asked = time.perf_counter()
            self.lock.acquire()
            waited = time.perf_counter() - asked
            if self.holders.change(+1) > most:
                raise RuntimeError("two have the lock")
            now = self.measured.stage
            if hold:
                time.sleep(hold)
            self.holders.change(-1)
            self.lock.release()
            self.total += 1
            if now == OVER:
                return
            if now == MEASURING:
                self.entries += 1
                if timed:
                    self.note(waited * 1e6)

    def note(self, wait):
        """When there is no more room, drops every other wait, and takes half as
        many from then on."""
        self.waits.append(wait)
        if len(self.waits) == MAX_WAITS:
            self.waits = self.waits[::2]
            self.stride *= 2


def sample(workers):
    """Draws MAX_WAITS of all workers' waits, evenly. One of a worker with stride 1
    stands for one entry, one of a worker with stride 4 for four; so of the former
    every fourth is taken."""
    most = max(w.stride for w in workers)
    everything = [wait for w in workers for wait in w.waits[:: most // w.stride]]
    n = min(len(everything), MAX_WAITS)
    return [round(everything[i * len(everything) // n], 3) for i in range(n)]


def answer(line):
    try:
        job = json.loads(line)
        if job["work"] == "hello":
            return {"version": "kazoo %s Lock on Python %s" % (__version__, platform.python_version())}
        if job["together"]:
            return {"unsupported": "not supported: kazoo takes one lock at a time"}
        if job["work"] == "contend":
            return Run(job).result(Run.measure)
        if job["work"] == "line" and not job["read"]:
            return Run(job).result(Run.queue)
        if job["work"] == "drain":
            return Run(job).result(Run.drain)
        if job["work"] == "reenter":
            return {"unsupported": "not supported: kazoo's locks cannot be taken again by their holder"}
        return {"unsupported": "not supported: work %r" % job["work"]}
    except Exception as e:
        return {"err": "%s: %s" % (type(e).__name__, e)}


def main():
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(answer(line)), flush=True)
    os._exit(0)  # a thread of a job that failed may hang still


main()
