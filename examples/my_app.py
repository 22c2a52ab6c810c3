"""A Python application: a chat beside an upload, with a drop-tail queue and with FQ-CoDel at the bottleneck.

Usage: python my_app.py [FOLDER]
   or: bentpipe race P.parquet --app examples/my_app.py:Chat --cc cubic,bbr --duration 60 -o out/chat

A user sends a message, waits for the answer, thinks and sends the next one. The time to an answer is what the user
notices. BBR's upload fills the uplink's queue, and each message waits behind it; FQ-CoDel sends the chat's first.
"""

import random
import sys

import bentpipe as bp
from bentpipe.plugin import App, Message


class Chat(App):
    think_s = 0.5  # mean; a tunable: --app examples/my_app.py:Chat:think_s=2
    message_bytes = 150
    answer_bytes = 2_000

    def on_started(self, now_s: float) -> None:
        self.random = random.Random(self.seed)  # the Run's seed: the same Run has the same think times
        self.number = 0
        self.open()

    def on_opened(self, now_s: float, stream: int) -> None:
        self.stream = stream
        self.think(now_s)

    def think(self, now_s: float) -> None:
        self.set_timer(now_s + self.random.expovariate(1 / self.think_s))

    def on_timer(self, now_s: float, number: int) -> None:
        self.write(self.stream, int(self.message_bytes), number=self.number, answer_bytes=int(self.answer_bytes))
        self.record(self.number, kind="chat", start_s=now_s, size_bytes=int(self.answer_bytes))
        self.number += 1

    def on_message(self, now_s: float, stream: int, message: Message) -> None:
        self.record(message.number, first_byte_s=message.first_byte_s, completed_s=now_s)
        self.think(now_s)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "out/my_app"
    path = bp.Profile.make(site=(47.61, -122.33), to="ashburn", duration=40, seed=1)
    flows = [bp.Flow("bbr", direction="up"), bp.Flow("cubic", app=f"{__file__}:Chat", start="2s")]
    for queue in ("drop_tail", "fq_codel"):
        run = bp.Experiment(path, flows=flows, queue=queue, duration=30, name=queue).simulate(out=out)[0]
        answered = run.applications().drop_nulls("completed_s")
        waits_ms = 1e3 * (answered["completed_s"] - answered["start_s"])
        print(
            f"{queue:9}: {answered.height} answers, median {waits_ms.median():.0f} ms, 95 % within "
            f"{waits_ms.quantile(0.95):.0f} ms; upload {run.summary()['goodput_bps'][0] / 1e6:.1f} Mbit/s"
        )
    print(f"stored in {out}; figures: bentpipe report {out}")
