# SPDX-License-Identifier: Apache-2.0
"""A link that is longer than loopback: every byte is late by half a round trip, and no faster than
the link.

slow_link.py LEASE_FILE OUT_FILE ROUND_TRIP_MS [MB_PER_S [HOST]]

Listens on a port of its own (of HOST, 127.0.0.1) for each server of the lease and writes OUT_FILE,
a lease file that leads there. Runs until it is killed. Each connection is a link of its own. Bytes
keep their order; what is under way is bounded by a quarter of a second's worth or 64 MB. Of each
connection that has ended OUT_FILE.bytes gets a line: {"there": bytes from the client, "back": bytes
to it}.
"""
import asyncio
import ctypes
import json
import os
import sys
import time

CHUNK = 256 << 10
MOST_UNDER_WAY = 64 << 20


libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """Wakes up to the microsecond: asyncio.sleep() rounds up to milliseconds, as epoll does."""

    class Setting(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("every", "every_ns", "at", "at_ns")]

    def __init__(self):
        self.fd = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)

    async def sleep_until(self, due):
        """`due` as time.monotonic() says it."""
        ns = int(due * 1e9)
        setting = self.Setting(0, 0, ns // 10**9, ns % 10**9)
        libc.timerfd_settime(self.fd, 1, ctypes.byref(setting), None)  # 1: TFD_TIMER_ABSTIME
        loop = asyncio.get_running_loop()
        rings = loop.create_future()
        loop.add_reader(self.fd, lambda: rings.done() or rings.set_result(None))
        try:
            await rings
        finally:
            loop.remove_reader(self.fd)
        os.read(self.fd, 8)

    def close(self):
        os.close(self.fd)


class Line:
    """One direction of one connection."""

    def __init__(self, delay, rate):
        self.delay, self.rate = delay, rate
        self.most = min(MOST_UNDER_WAY, rate * (0.25 + delay) + CHUNK) if rate else MOST_UNDER_WAY
        self.carried = 0
        self.free_at = 0.0
        self.under_way = asyncio.Queue()
        self.bytes = 0
        self.room = asyncio.Condition()

    async def take(self, reader):
        while chunk := await reader.read(CHUNK):
            # A link of finite rate is busy with one chunk after the other.
            self.carried += len(chunk)
            sent = max(time.monotonic(), self.free_at)
            if self.rate:
                sent += len(chunk) / self.rate
            self.free_at = sent
            async with self.room:
                await self.room.wait_for(lambda: self.bytes < self.most)
                self.bytes += len(chunk)
            self.under_way.put_nowait((sent + self.delay, chunk))
        self.under_way.put_nowait((time.monotonic() + self.delay, b""))

    async def give(self, writer):
        alarm = Alarm()
        try:
            await self.give_by(alarm, writer)
        finally:
            alarm.close()

    async def give_by(self, alarm, writer):
        while True:
            due, chunk = await self.under_way.get()
            if due > time.monotonic():
                await alarm.sleep_until(due)
            if not chunk:
                writer.close()
                return
            writer.write(chunk)
            await writer.drain()
            async with self.room:
                self.bytes -= len(chunk)
                self.room.notify_all()


async def serve(address, here, delay, rate, out):
    host, port = address.rsplit(":", 1)

    async def connected(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            writer.close()
            return
        there, back = Line(delay, rate), Line(delay, rate)
        parts = [
            asyncio.ensure_future(part)
            for part in (
                there.take(reader),
                there.give(far_writer),
                back.take(far_reader),
                back.give(writer),
            )
        ]
        await asyncio.gather(*parts, return_exceptions=True)
        with open(out + ".bytes", "a") as file:
            file.write(json.dumps({"there": there.carried, "back": back.carried}) + "\n")

    server = await asyncio.start_server(connected, here, 0)
    return server, f"{here}:{server.sockets[0].getsockname()[1]}"


async def main():
    lease, out, round_trip = sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000
    rate = float(sys.argv[4]) * 1e6 if len(sys.argv) > 4 else 0
    here = sys.argv[5] if len(sys.argv) > 5 else "127.0.0.1"
    with open(lease) as file:
        told = json.load(file)
    servers = []
    for entry in told["servers"]:
        server, entry["address"] = await serve(entry["address"], here, round_trip / 2, rate, out)
        servers.append(server)
    with open(out + ".new", "w") as file:
        json.dump(told, file)
    os.chmod(out + ".new", 0o400)
    os.rename(out + ".new", out)
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
