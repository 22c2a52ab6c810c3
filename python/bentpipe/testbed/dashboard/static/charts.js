// Charts: figures with data-chart, and a node's live values from its stream. uPlot draws; numbers come from the server.
"use strict";

(() => {
  const COLOURS = ["#0b72d0", "#c2570c", "#1a8a4a", "#a3408f", "#8a6d00", "#4a6fa5"];
  const DASHES = [[], [6, 4], [2, 3]];
  const KEPT = 600;
  const MINUTE_S = 60;
  const PREFIXES = ["", "k", "M", "G", "T"];
  const GROUPS = [
    { title: "Latency", unit: "ms", match: (name) => name.endsWith("_ms") },
    { title: "Rates", unit: "bit/s", match: (name) => name.endsWith("_bps") },
    { title: "Shares", unit: "", match: (name) => /rate$|obstructed$|^connected$/.test(name) },
  ];

  function scaled(value, unit) {
    if (value === null || value === undefined) return "–";
    let size = Math.abs(value);
    let step = 0;
    while ((unit === "bit/s" || unit === "B") && size >= 1000 && step < PREFIXES.length - 1) {
      size /= 1000;
      step += 1;
    }
    const text = `${value < 0 ? "-" : ""}${Number(size.toPrecision(3))}`;
    return unit ? `${text} ${PREFIXES[step]}${unit}` : text;
  }

  function times(plot, splits) {
    const span = plot.scales.x.max - plot.scales.x.min;
    return splits.map((seconds) => {
      const text = new Date(seconds * 1000).toISOString();
      if (span > 2 * 86400) return text.slice(5, 10);
      return text.slice(11, span < 600 ? 19 : 16);
    });
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function drawMarks(plot, marks) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.lineWidth = uPlot.pxRatio;
    ctx.setLineDash([4 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
    ctx.beginPath();
    ctx.fillStyle = colour("--bad");
    ctx.font = `${11 * uPlot.pxRatio}px system-ui, sans-serif`;
    marks.forEach(({ at, text }, index) => {
      const x = plot.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      const isLeft = x + ctx.measureText(text).width + 8 * uPlot.pxRatio < bbox.left + bbox.width;
      ctx.textAlign = isLeft ? "left" : "right";
      ctx.fillText(text, x + (isLeft ? 4 : -4) * uPlot.pxRatio, bbox.top + bbox.height - (6 + 13 * (index % 3)) * uPlot.pxRatio);
    });
    ctx.stroke();
    ctx.restore();
  }

  // Lost probes as ticks above the axis of time.
  function drawLost(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.lineWidth = 1.5 * uPlot.pxRatio;
    ctx.beginPath();
    plot.data[0].forEach((at, index) => {
      if (!plot.data.some((line) => line[index] === null)) return;
      const x = plot.valToPos(at, "x", true);
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x, bbox.top + bbox.height - 8 * uPlot.pxRatio);
    });
    ctx.stroke();
    ctx.restore();
  }

  // Optional: `span`, the axis of time [s]; `marks`, lines across at `at` [s] with `text`; `sync`, figures with a common
  // pointer; `hasLost`, absent values are lost probes; `joins`, lines go on where a value is absent.
  function draw(figure, { title, unit, labels, values, span, marks = [], sync, hasLost, joins = false }) {
    const box = document.createElement("div");
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${title}: chart over time`);
    const legend = document.createElement("p");
    legend.className = "chart-legend";
    const readouts = labels.map((label, index) => {
      const entry = document.createElement("span");
      const line = document.createElement("i");
      line.className = `line-${index % COLOURS.length}`;
      const text = document.createElement("span");
      entry.append(line, text);
      legend.append(entry);
      return text;
    });
    const caption = figure.querySelector("figcaption");
    caption.after(box, legend);
    if (!span && values[0].length === 1) span = [values[0][0] - MINUTE_S, values[0][0] + MINUTE_S];
    const isSparse = values[0].length > 0 && values[0].length < 80;
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
    const read = (plot) => {
      const at = plot.cursor.idx;
      labels.forEach((label, index) => {
        const line = plot.data[index + 1];
        const value = at === null || at === undefined ? line.findLast(Number.isFinite) : line[at];
        readouts[index].textContent = `${label}: ${scaled(value, unit)}`;
      });
    };
    const plot = new uPlot(
      {
        width: Math.max(240, figure.clientWidth),
        height: 190,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
        legend: { show: false },
        cursor: { points: { size: 6 }, ...(sync && { sync: { key: sync } }) },
        axes: [{ ...axis, values: times, space: 64 }, { ...axis, size: 78, values: (_, splits) => splits.map((each) => scaled(each, unit)) }],
        scales: { ...(span && { x: { min: span[0], max: span[1], range: () => span } }), y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) > 0 ? (high ?? 1) * 1.08 : 1] } },
        series: [
          {},
          ...labels.map((label, index) => ({
            label,
            stroke: COLOURS[index % COLOURS.length],
            dash: DASHES[index % DASHES.length],
            width: 1.6,
            points: { show: isSparse, size: 5 },
            spanGaps: joins,
          })),
        ],
        hooks: { setCursor: [read], setData: [read], ready: [read], drawClear: [(each) => drawMarks(each, marks)], draw: hasLost ? [drawLost] : [] },
      },
      values,
      box,
    );
    new ResizeObserver(() => plot.setSize({ width: Math.max(240, figure.clientWidth), height: 190 })).observe(figure);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw());
    figure.classList.add("drawn");
    return plot;
  }

  function drawAll() {
    for (const figure of document.querySelectorAll("figure[data-chart]:not(.drawn)")) {
      draw(figure, JSON.parse(figure.dataset.chart));
    }
  }

  function followNode(holder) {
    let groups = [];
    let columns = "";
    let source = null;

    function begin(names) {
      holder.replaceChildren();
      groups = GROUPS.map((group) => ({ ...group, indices: [], labels: [] }));
      names.forEach((name, index) => {
        const group = index ? groups.find((each) => each.match(name)) : null;
        if (!group) return;
        group.indices.push(index);
        group.labels.push(name.replace(/_(ms|bps)$/, "").replaceAll("_", " "));
      });
      groups = groups.filter((group) => group.indices.length);
      for (const group of groups) {
        const figure = document.createElement("figure");
        const caption = document.createElement("figcaption");
        caption.textContent = group.unit ? `${group.title} [${group.unit}]` : group.title;
        figure.append(caption);
        holder.append(figure);
        group.data = [[], ...group.indices.map(() => [])];
        group.plot = draw(figure, { ...group, values: group.data });
      }
    }

    function take(event) {
      const batch = JSON.parse(event.data);
      if (!batch.columns.length) {
        holder.textContent = holder.dataset.empty;
        return;
      }
      if (batch.columns.join() !== columns) {
        columns = batch.columns.join();
        begin(batch.columns);
      }
      for (const group of groups) {
        for (const row of batch.rows) {
          if (row[0] / 1000 <= group.data[0].at(-1)) continue;
          group.data[0].push(row[0] / 1000);
          group.indices.forEach((index, line) => group.data[line + 1].push(row[index]));
        }
        group.data.forEach((line) => line.splice(0, line.length - KEPT));
        group.plot.setData(group.data);
      }
    }

    function update() {
      if (document.hidden) {
        source?.close();
        source = null;
      } else if (!source) {
        source = new EventSource(holder.dataset.stream);
        source.addEventListener("rows", take);
      }
    }
    document.addEventListener("visibilitychange", update);
    addEventListener("pagehide", () => source?.close());
    update();
  }

  window.drawChart = draw;
  document.addEventListener("DOMContentLoaded", () => {
    drawAll();
    const holder = document.getElementById("live-charts");
    if (holder) followNode(holder);
  });
  document.addEventListener("htmx:after:swap", drawAll);
})();
