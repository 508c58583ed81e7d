"""kazoo as one side of a pair. A line on standard input is "NUMBER COMMAND ARGUMENTS", and each is answered by a line
"> NUMBER ok WORDS" or "> NUMBER error TEXT", in whatever order they come to their ends: any number of waits can be under
way. The commands are in lock.rs. The end of the input ends the process at once: its sessions are left to the
server.

Stamps are CLOCK_MONOTONIC.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo_locks import CuratorLock, CuratorReadLock, CuratorWriteLock

sessions = {}
locks = {}
output = threading.Lock()


class Leading:
    """An election of kazoo's: to lead is to hold. Another each time, for one that was cancelled may stay so."""

    def __init__(self, client, path, identifier, lock=None):
        self.client, self.path, self.identifier, self.lock = client, path, identifier, lock
        self.leads, self.may_let_go = threading.Semaphore(0), threading.Semaphore(0)
        self.election = self.made()

    def made(self):
        election = self.client.Election(self.path, self.identifier)
        if self.lock:
            election.lock = self.lock(self.client, self.path, self.identifier)
        return election

    def lead(self):
        self.leads.release()
        self.may_let_go.acquire()

    def acquire(self, timeout):
        self.election = self.made()
        self.running = threading.Thread(target=self.election.run, args=[self.lead], daemon=True)
        self.running.start()
        if self.leads.acquire(timeout=timeout):
            return True
        self.election.cancel()
        while self.running.is_alive():
            if self.leads.acquire(timeout=0.01):
                return True  # it was elected a moment before
        return False

    def release(self):
        self.may_let_go.release()
        self.running.join()

    @property
    def is_acquired(self):
        return self.election.lock.is_acquired

    def contenders(self):
        """In hexadecimal digits, as they may have spaces."""
        return ["contends=" + one.encode().hex() for one in self.election.contenders()]


def plus(client, path, name):
    return client.Lock(path, name, extra_lock_patterns=["-lock-"])


KINDS = {
    # Beside Curator's nodes, in names and in whom it waits for.
    "mutex": CuratorLock,
    "read": CuratorReadLock,
    "write": CuratorWriteLock,
    # kazoo's own.
    "stock": lambda client, path, name: client.Lock(path, name),
    "stock-read": lambda client, path, name: client.ReadLock(path, name),
    "stock-write": lambda client, path, name: client.WriteLock(path, name),
    # kazoo's own names, and it waits for Curator's as well.
    "plus": plus,
    # An election by each of these mutexes.
    "election": lambda client, path, name: Leading(client, path, name, CuratorLock),
    "stock-election": Leading,
    "plus-election": lambda client, path, name: Leading(client, path, name, plus),
}


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def connect(name, servers, timeout):
    client = KazooClient(hosts=servers, timeout=int(timeout) / 1000)
    client.start(timeout=60)
    sessions[name] = client
    return ""


def lock(name, session, kind, path):
    """An identifier may follow the kind, in hexadecimal digits."""
    kind, _, identifier = kind.partition(":")
    identifier = bytes.fromhex(identifier).decode() or name
    locks[name] = KINDS[kind](sessions[session], path, identifier)
    return ""


def acquired(one, limit):
    try:
        return one.acquire(timeout=limit)
    except LockTimeout:
        return False


def acquire(name, millis, _count):
    limit = None if int(millis) < 0 else int(millis) / 1000
    word = "yes" if acquired(locks[name], limit) else "no"
    return f"{word} {now()}"


def release(name):
    before = now()
    locks[name].release()
    return str(before)


def held(name):
    word = "yes" if locks[name].is_acquired else "no"
    return f"{word} {now()}"


def participants(name):
    """Who they say they are: kazoo does not tell the nodes."""
    return " ".join(locks[name].contenders())


COMMANDS = {
    "connect": connect,
    "lock": lock,
    "acquire": acquire,
    "release": release,
    "held": held,
    "participants": participants,
}


def answer(number, command, *arguments):
    try:
        text = "ok " + COMMANDS[command](*arguments)
    except BaseException as error:
        text = "error " + repr(error).replace("\n", " ")
    with output:
        print(f"> {number} {text}", flush=True)


def main():
    for line in sys.stdin:
        threading.Thread(target=answer, args=line.split(), daemon=True).start()
    os._exit(0)


main()
