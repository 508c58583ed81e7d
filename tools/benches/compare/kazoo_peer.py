"""kazoo's lock. A question a line on standard input, numbers (or what went wrong) a line on standard output; times in
nanoseconds:

run SERVERS PATH THREADS LOCKS SESSIONS HOLD_MICROSECONDS TURN_MILLISECONDS -> cycles, elapsed, 0

One thread, one lock, one session, no hold. Sessions and locks are kept from question to question. The end of the
input ends the process.
"""

import os
import queue
import sys
import threading
import time

from kazoo.client import KazooClient

questions = queue.Queue()
clients = {}
locks = {}


def read():
    for line in sys.stdin:
        questions.put(line.strip())
    questions.put("")
    # Whoever waits for a lock must not keep the process alive when its owner is gone.
    time.sleep(5)
    os._exit(0)


def lock(servers, path):
    if servers not in clients:
        clients[servers] = KazooClient(hosts=servers, timeout=30)
        clients[servers].start()
    if (servers, path) not in locks:
        locks[servers, path] = clients[servers].Lock(path)
    return locks[servers, path]


def run(servers, path, turn):
    one = lock(servers, path)
    cycles, began = 0, time.monotonic_ns()
    while time.monotonic_ns() - began < turn:
        one.acquire()
        one.release()
        cycles += 1
    return f"{cycles} {time.monotonic_ns() - began} 0"


def answer(words):
    if words[0] != "run" or words[3:7] != ["1", "1", "1", "0"]:
        return "unknown: " + " ".join(words)
    return run(words[1], words[2] + "/0", int(words[7]) * 1_000_000)


def main():
    threading.Thread(target=read, daemon=True).start()
    for question in iter(questions.get, ""):
        try:
            print(answer(question.split(" ")), flush=True)
        except Exception as error:
            print(repr(error).replace("\n", " "), flush=True)
    for client in clients.values():
        client.stop()


try:
    main()
except KeyboardInterrupt:
    pass
