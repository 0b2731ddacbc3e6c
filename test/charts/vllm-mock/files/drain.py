"""preStop of a vLLM pod: waits until routers have noticed that the pod ends, then until vLLM is idle.

The kubelet sends SIGTERM when this ends. It ends within --endpoint-sync plus --drain seconds, whatever happens, so that what comes after
it has its own time left. Python, because the engine's image has no curl.
"""

import argparse
import os
import re
import signal
import time
import urllib.request

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
# The whole name: there are newer series that begin with it, such as vllm:num_requests_waiting_by_reason.
SAMPLE = re.compile(r"(%s)(?:\{.*\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?\s*" % "|".join(GAUGES))
LONGEST_READ = 2.0

arguments = argparse.ArgumentParser()
arguments.add_argument("--port", type=int, required=True)
arguments.add_argument("--endpoint-sync", type=float, required=True)
arguments.add_argument("--drain", type=float, required=True)
arguments.add_argument("--poll", type=float, required=True)
# A server that has refused every connection has no requests either: it has not started yet, or never will.
arguments.add_argument("--give-up", type=float, required=True)
arguments.add_argument("--log", required=True)
given = arguments.parse_args()


# An alarm bounds the whole read. A timeout of the socket would start again with every byte.
def too_long(*_):
    raise TimeoutError("no answer in time")


signal.signal(signal.SIGALRM, too_long)
# Without the proxies of the environment: this pod is asked, and nobody else.
local = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def log(text):
    # What a hook prints is lost; what process 1 prints is the container's log. A log that takes no more must not hold anything up.
    try:
        file = os.open(given.log, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        try:
            os.write(file, f"preStop: {text}\n".encode())
        finally:
            os.close(file)
    except OSError:
        pass


def read(longest):
    """The text of the metrics page. Raises an exception when it cannot be had within so many seconds."""
    signal.setitimer(signal.ITIMER_REAL, longest)
    try:
        with local.open(f"http://127.0.0.1:{given.port}/metrics") as page:
            return page.read().decode("utf-8", "replace")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def requests(page):
    """Requests by gauge, over all models and engines. Raises ValueError when one is not known, which is not the same as 0."""
    total = {}
    for line in page.splitlines():
        sample = SAMPLE.fullmatch(line)
        if sample:
            name, value = sample[1], float(sample[2])
            if not value >= 0:
                raise ValueError(f"{name} is {value}")
            total[name] = total.get(name, 0) + value
    for name in GAUGES:
        if name not in total:
            raise ValueError(f"the metrics page has no {name}")
    return total


def drain():
    log(f"waiting {given.endpoint_sync:g} s for routers, then at most {given.drain:g} s until vLLM is idle")
    start = time.monotonic()
    time.sleep(given.endpoint_sync)
    end = start + given.endpoint_sync + given.drain
    only_refused, told, seen = True, None, "nothing was read"
    while (left := end - time.monotonic()) > 0:
        try:
            total = requests(read(min(LONGEST_READ, left)))
            only_refused = False
            seen = ", ".join(f"{total[name]:g} {name.rpartition('_')[2]}" for name in GAUGES)
            if not any(total.values()):
                return f"idle after {time.monotonic() - start:.1f} s"
        except Exception as error:  # Whatever it is: unknown is taken for busy.
            seen = f"unknown: {error}"
            only_refused = only_refused and isinstance(getattr(error, "reason", None), ConnectionRefusedError)
        if seen != told:
            log(seen)
            told = seen
        now = time.monotonic()
        if only_refused and now - start - given.endpoint_sync >= given.give_up:
            return f"the server has refused every connection for {given.give_up:g} s, so nothing is served here: waiting no longer"
        time.sleep(max(0, min(given.poll, end - now)))
    return f"not idle after {given.endpoint_sync + given.drain:g} s ({seen}): waiting no longer"


log(drain())
