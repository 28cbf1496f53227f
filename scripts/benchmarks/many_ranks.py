"""Ranks that send nothing: they say to rank 0 what ranks say, so that one machine can have a thousand of them."""

import asyncio
import json
import struct
import time

LENGTH = struct.Struct(">I")


def emptied(value):
    """The same without any number, so that nothing was sent."""
    if isinstance(value, dict):
        return {key: emptied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [emptied(inner) for inner in value]
    return 0 if isinstance(value, (int, float)) and not isinstance(value, bool) else value


class Ranks:
    """The ranks from 1 to `of` - 1; `part` is what each of them measured."""

    def __init__(self, of, port, version, part):
        self.of, self.port, self.version = of, port, version
        self.part = part
        # By what rank 0 says: when each rank heard it.
        self.heard = {}

    async def hold(self):
        await asyncio.gather(*(self.rank(number) for number in range(1, self.of)))

    async def rank(self, number):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                break
            except ConnectionError:
                await asyncio.sleep(0.05)

        def say(what, **more):
            frame = json.dumps({"say": what, **more}).encode()
            writer.write(LENGTH.pack(len(frame)) + frame)

        share = {"rank": number, "of": self.of}
        say("hello", version=self.version, token="", share=share, host=f"host{number}", clock=None)
        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            message = json.loads(await reader.readexactly(length))
            heard = message["say"]
            if heard != "ping":
                self.heard.setdefault(heard, []).append(time.monotonic())
            if heard == "ping":
                say("pong", now=time.monotonic_ns())
            elif heard == "run":
                say("ready")
            elif heard == "start":
                say("began", at_ns=0)
                say("ended", **self.part)
            elif heard == "done":
                await writer.drain()
                writer.close()
                return
            elif heard == "refused":
                raise ConnectionError(message["why"])
