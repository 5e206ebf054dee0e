"""Draw the diagrams of the documentation.

`python docs/diagrams/draw.py` writes the SVG files beside this script.

Each function returns one picture. Boxes are placed by hand on a grid of pixels, so that a change of
the script changes only what it says; the SVG files are committed, and a test compares them.
"""

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap

FONT = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INK = "#1f2937"
MUTED = "#64748b"
LINE = "#94a3b8"
FILLS = {
    "client": ("#eef2ff", "#6366f1"),
    "broker": ("#ecfdf5", "#10b981"),
    "disk": ("#fff7ed", "#f59e0b"),
    "spark": ("#fef2f2", "#ef4444"),
    "store": ("#f5f3ff", "#8b5cf6"),
    "plain": ("#ffffff", "#94a3b8"),
    "group": ("#f8fafc", "#cbd5e1"),
}


@dataclass(slots=True)
class Drawing:
    """An SVG picture that is built from boxes, arrows and text."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: int, y: int, w: int, h: int, title: str, *lines: str, kind: str = "plain"
    ) -> None:
        fill, stroke = FILLS[kind]
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="1.5"/>'
        )
        if kind == "group":
            self.text(x + 12, y + 20, title, size=12, color=MUTED, weight=600, anchor="start")
            return
        top = y + h / 2 - (len(lines) * 16) / 2 + 5
        self.text(x + w / 2, top, title, size=14, weight=600)
        for number, line in enumerate(lines, 1):
            self.text(x + w / 2, top + 16 * number, line, size=12, color=MUTED)

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        size: int = 12,
        color: str = INK,
        weight: int = 400,
        anchor: str = "middle",
    ) -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" '
            f'font-weight="{weight}" text-anchor="{anchor}">{escape(content)}</text>'
        )

    def arrow(
        self,
        *points: tuple[int, int],
        label: str = "",
        at: tuple[int, int] | None = None,
        dashed: bool = False,
        anchor: str = "middle",
    ) -> None:
        path = "M" + " L".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.4"{dash} '
            'marker-end="url(#head)"/>'
        )
        if label:
            first, second = points[0], points[1]
            x, y = at or ((first[0] + second[0]) // 2, (first[1] + second[1]) // 2 - 7)
            self.text(x, y, label, size=12, color=INK, anchor=anchor)

    def caption(self, y: int, content: str) -> None:
        for number, line in enumerate(wrap(content, 112)):
            self.text(self.width / 2, y + 24 * number, line, size=13)

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" font-family="{FONT}">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{INK}"/>'
            "</marker></defs>\n"
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def architecture() -> Drawing:
    d = Drawing(900, 470, "Headwater: clients, brokers, metadata store and Spark")
    d.box(20, 20, 860, 92, "any Kafka client or tool", kind="group")
    d.box(36, 50, 190, 48, "Kafka clients", "Java, librdkafka, Go, ...", kind="client")
    d.box(242, 50, 190, 48, "headwater.client", "records and Arrow tables", kind="client")
    d.box(448, 50, 190, 48, "headwater CLI", "and Kafka's own tools", kind="client")
    d.box(654, 50, 210, 48, "registry and console", "HTTP", kind="client")
    d.box(20, 150, 620, 210, "cluster", kind="group")
    for number, x in ((1, 36), (2, 236), (3, 436)):
        role = "active controller" if number == 1 else "broker"
        d.box(x, 182, 188, 78, f"broker {number}", role, "requests, replicas", kind="broker")
        d.box(x, 292, 188, 52, "log directories", "Kafka's segment format", kind="disk")
        d.arrow((x + 94, 260), (x + 94, 292))
    d.arrow((224, 210), (236, 210))
    d.arrow((424, 210), (436, 210))
    d.box(
        20,
        398,
        620,
        52,
        "metadata store",
        "KRaft quorum, ZooKeeper, or one local file",
        kind="store",
    )
    d.arrow((330, 360), (330, 398))
    d.box(680, 150, 200, 300, "Spark through PySpark", kind="group")
    d.box(694, 182, 172, 56, "pipelines", "SQL, joins, windows", kind="spark")
    d.box(694, 248, 172, 56, "connectors", "databases, files", kind="spark")
    d.box(694, 314, 172, 56, "mirror", "cluster to cluster", kind="spark")
    d.box(694, 380, 172, 56, 'format("headwater")', "source and sink", kind="spark")
    d.arrow((694, 222), (640, 222))
    d.arrow((640, 238), (694, 238))
    d.arrow((330, 112), (330, 150), label="Kafka protocol", at=(386, 136))
    return d


def write_path() -> Drawing:
    d = Drawing(900, 360, "The way of a record into the log")
    d.box(20, 30, 150, 64, "Producer", "batches records", kind="client")
    d.box(210, 20, 470, 220, "leader", kind="group")
    d.box(226, 52, 130, 60, "network", "frame from the socket", kind="broker")
    d.box(376, 52, 130, 60, "Produce handler", "authorize, validate", kind="broker")
    d.box(526, 52, 138, 60, "unified log", "sequence, offset", kind="broker")
    d.box(526, 160, 138, 60, "active segment", "one write, page cache", kind="disk")
    d.box(226, 160, 210, 60, "purgatory", "acks=all waits for the ISR", kind="broker")
    d.box(732, 20, 150, 90, "follower 2", "replica fetcher", "appends same bytes", kind="broker")
    d.box(732, 150, 150, 90, "follower 3", "replica fetcher", "appends same bytes", kind="broker")
    d.arrow((170, 66), (226, 66), label="Produce", at=(192, 52))
    d.arrow((356, 82), (376, 82))
    d.arrow((506, 82), (526, 82))
    d.arrow((595, 112), (595, 160))
    d.arrow((526, 190), (436, 190))
    d.arrow((732, 76), (664, 172), label="Fetch", at=(716, 130))
    d.arrow((732, 200), (664, 196))
    d.arrow((226, 190), (95, 190), (95, 94), label="response: base offset", at=(98, 210))
    d.caption(
        284,
        "The batch stays bytes: the kernel checks it in one call, and no Python object is "
        "made per record. A follower's next Fetch tells the leader its log end offset. When "
        "all of the ISR have a batch, the high watermark passes it, the purgatory answers, "
        "consumers may read it.",
    )
    return d


def read_path() -> Drawing:
    d = Drawing(900, 330, "The way of a record out of the log")
    d.box(20, 60, 150, 64, "Consumer", "Fetch, min bytes", kind="client")
    d.box(220, 20, 660, 220, "leader, or a follower in the consumer's rack", kind="group")
    d.box(240, 52, 150, 64, "Fetch handler", "session, authorization", kind="broker")
    d.box(430, 52, 170, 64, "unified log", "offset to file range", kind="broker")
    d.box(640, 40, 220, 56, "in the page cache", "sendfile to the socket", kind="disk")
    d.box(640, 116, 220, 56, "on the disk only", "read off the loop, cache kept", kind="disk")
    d.box(240, 160, 150, 60, "purgatory", "waits for min bytes", kind="broker")
    d.arrow((170, 84), (240, 84), label="Fetch", at=(204, 74))
    d.arrow((390, 84), (430, 84))
    d.arrow((600, 76), (640, 68))
    d.arrow((600, 96), (640, 140))
    d.arrow((315, 116), (315, 160), label="nothing new yet", at=(366, 142))
    d.arrow((640, 200), (400, 200), label="", dashed=True)
    d.text(520, 192, "append or high watermark wakes it", size=12)
    d.caption(
        276,
        "Readers at the tail are served from the page cache without a copy. Lagging consumers "
        "are read by threads and their pages are dropped, so that hot data stays in memory.",
    )
    return d


def replication() -> Drawing:
    d = Drawing(900, 380, "Replication, the ISR and the high watermark")
    cells = 10
    rows = (
        ("leader", 10, "broker"),
        ("follower, in the ISR", 8, "broker"),
        ("follower, out of the ISR", 4, "plain"),
    )
    left, size = 260, 44
    for row, (name, held, kind) in enumerate(rows):
        y = 60 + row * 84
        d.text(left - 20, y + 28, name, size=14, weight=600, anchor="end")
        fill, stroke = FILLS[kind]
        for cell in range(cells):
            if cell < held:
                d.parts.append(
                    f'<rect x="{left + cell * size}" y="{y}" width="{size - 4}" height="44" rx="5" '
                    f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
                )
                d.text(left + cell * size + 20, y + 27, str(cell), size=13)
        d.text(left + held * size + 8, y + 27, f"LEO {held}", size=12, color=MUTED, anchor="start")
    x = left + 8 * size - 2
    d.parts.append(
        f'<line x1="{x}" y1="36" x2="{x}" y2="300" stroke="#ef4444" stroke-width="2" '
        'stroke-dasharray="6 4"/>'
    )
    d.text(x, 28, "high watermark 8", size=13, color="#b91c1c", weight=600)
    d.caption(
        326,
        "High watermark = smallest log end offset in the ISR. Consumers read below it; "
        "acks=all waits for it. A follower behind for replica.lag.time.max.ms leaves the ISR "
        "by AlterPartition, and rejoins when caught up.",
    )
    return d


def controller_failover() -> Drawing:
    d = Drawing(
        900,
        430,
        "Failover in a ZooKeeper cluster when the broker that is leader and controller dies",
    )
    lanes = (
        (100, "broker 1", "leader and controller", "broker"),
        (310, "metadata store", "ZooKeeper", "store"),
        (570, "broker 2", "in the ISR", "broker"),
        (800, "broker 3, clients", "", "client"),
    )
    for x, name, role, kind in lanes:
        d.box(x - 82, 20, 164, 48, name, *([role] if role else []), kind=kind)
        end = 110 if name == "broker 1" else 390
        d.parts.append(
            f'<line x1="{x}" y1="68" x2="{x}" y2="{end}" stroke="{LINE}" stroke-width="1.4"/>'
        )
    d.text(100, 132, "process dies", size=13, color="#b91c1c", weight=600)
    steps = (
        (130, 570, 310, "remove registration of broker 1"),
        (180, 570, 310, "become controller: epoch + 1"),
        (230, 570, 310, "elect leaders from the ISR"),
        (280, 570, 800, "LeaderAndIsr, UpdateMetadata"),
        (330, 800, 570, "Metadata: broker 2 leads"),
        (370, 800, 570, "Produce, Fetch"),
    )
    for y, start, end, label in steps:
        d.arrow((start, y), (end, y), label=label, at=((start + end) // 2, y - 8))
    d.text(
        560,
        96,
        "address refuses connections, or the session ends",
        color=MUTED,
        anchor="end",
    )
    d.caption(
        416,
        "Requests of a deposed controller or leader are refused by their epochs.",
    )
    return d


def spark_batch() -> Drawing:
    d = Drawing(900, 380, "A Spark micro-batch that writes exactly once")
    d.box(20, 20, 250, 150, "driver", kind="group")
    d.box(36, 52, 218, 46, "plan batch 7", "offsets per partition", kind="spark")
    d.box(36, 110, 218, 46, "checkpoint", "offsets before, commit after", kind="disk")
    d.box(330, 20, 280, 210, "executors", kind="group")
    d.box(
        346,
        52,
        248,
        70,
        "task 0",
        "fetch range, Arrow columns",
        "producer: id query-sink-0",
        kind="spark",
    )
    d.box(
        346,
        140,
        248,
        70,
        "task 1",
        "fetch range, Arrow columns",
        "producer: id query-sink-1",
        kind="spark",
    )
    d.box(670, 20, 210, 210, "Headwater or Kafka", kind="group")
    d.box(686, 52, 178, 46, "source topics", kind="broker")
    d.box(686, 108, 178, 46, "target topics", "one transaction a task", kind="broker")
    d.box(686, 164, 178, 50, "__consumer_offsets", "batch 7, task 0: done", kind="broker")
    d.arrow((254, 78), (346, 78))
    d.arrow((254, 90), (346, 168))
    d.arrow((686, 70), (594, 70), label="read", at=(642, 62))
    d.arrow((594, 104), (686, 128), label="records", at=(636, 104))
    d.arrow((594, 116), (686, 184), label="progress", at=(632, 178))
    d.caption(
        276,
        "Records and the note that this part of this batch is written commit in one "
        "transaction. A killed task, executor or driver repeats the batch: the task reads the "
        "note first and writes nothing twice. The transactional id fences a task that is "
        "still running elsewhere.",
    )
    return d


DRAWINGS = {
    "architecture": architecture,
    "write-path": write_path,
    "read-path": read_path,
    "replication": replication,
    "controller-failover": controller_failover,
    "spark-batch": spark_batch,
}


def main() -> None:
    for name, draw in DRAWINGS.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
