// Interactive figures. Data: one script element of type application/json per chart (bentpipe/report/charts.py). STYLE: colours
// of bentpipe/plots/style.py. Every text from data is set as text, never as markup.
"use strict";
(() => {
  const AXIS_PX = 58;
  const HEIGHT_PX = { first: 180, other: 135, strip: 42, cdf: 230, labels: 44 };
  const FONT = "12px system-ui, sans-serif";
  const TICK_ROW_PX = 7;
  let groups = 0;

  function element(parent, tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    return value === 0 ? "0" : value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  }

  // Abscissae and values of a line. In a CDF the values are at equally spaced shares.
  function columns(chart, line) {
    if (chart.kind === "cdf") return [line.y, line.y.map((_, i) => i / (line.y.length - 1))];
    return [line.regular ? line.y.map((_, i) => line.x[0] + line.x[1] * i) : line.x, line.y];
  }

  // The index of the known value nearest to `index`: lines have abscissae of their own.
  function nearest(values, index) {
    for (let away = 0; away < values.length; away++) {
      if (values[index - away] !== undefined) return index - away;
      if (values[index + away] !== undefined) return index + away;
    }
    return index;
  }

  function range(panel) {
    return (u, low, high) => {
      if (low === null || high === null) return [0, 1];
      if (panel.from_zero) return [0, (high > 0 ? high : 1) * (1.06 + 0.055 * panel.ticks.length)];
      const room = (high - low) * 0.08 || high * 0.05 || 1;
      return [Math.max(0, low - room), high + room];
    };
  }

  // The part of the horizontal axis that is shown at first.
  function whole(chart, panel, data) {
    if (chart.kind === "time") return { min: 0, max: chart.end };
    const values = data[0].length ? data[0] : [0, 1];
    const [low, high] = [values[0], values[values.length - 1]];
    return { min: panel.from_zero ? 0 : low, max: high > low || (panel.from_zero && high > 0) ? high : low + 1 };
  }

  function clipped(u, draw) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, bbox, (at) => u.valToPos(at, "x", true), uPlot.pxRatio);
    ctx.restore();
  }

  // Outages as bands, slot edges and handovers as lines, below the data.
  function drawMarks(u, marks) {
    clipped(u, (ctx, bbox, x, px) => {
      ctx.fillStyle = STYLE.outage;
      for (const [from, to] of marks.outages) ctx.fillRect(x(from), bbox.top, Math.max(x(to) - x(from), px), bbox.height);
      for (const [times, colour, dash] of [
        [marks.slots, STYLE.slot, []],
        [marks.handovers, STYLE.handover, [3 * px, 3 * px]],
      ]) {
        ctx.strokeStyle = colour;
        ctx.lineWidth = px;
        ctx.setLineDash(dash);
        ctx.beginPath();
        for (const at of times) {
          ctx.moveTo(x(at), bbox.top);
          ctx.lineTo(x(at), bbox.top + bbox.height);
        }
        ctx.stroke();
      }
    });
  }

  // A triangle above each handover in sight.
  function drawHandovers(u, marks) {
    const { ctx, bbox } = u;
    const px = uPlot.pxRatio;
    ctx.fillStyle = STYLE.handover;
    for (const at of marks.handovers) {
      const x = u.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x - 5 * px, bbox.top - 5 * px);
      ctx.lineTo(x + 5 * px, bbox.top - 5 * px);
      ctx.lineTo(x, bbox.top + 4 * px);
      ctx.fill();
    }
  }

  // A tick for every second with tail drops, one row per flow.
  function drawTicks(u, panel, entries) {
    clipped(u, (ctx, bbox, x, px) => {
      panel.ticks.forEach(([entry, times], row) => {
        if (entries[entry].hidden) return;
        ctx.strokeStyle = entries[entry].colour;
        ctx.lineWidth = 1.5 * px;
        ctx.beginPath();
        for (const at of times) {
          ctx.moveTo(x(at), bbox.top + (1 + TICK_ROW_PX * row) * px);
          ctx.lineTo(x(at), bbox.top + (6 + TICK_ROW_PX * row) * px);
        }
        ctx.stroke();
      });
    });
  }

  // Serving satellites above, spans of random loss below; a name where it fits.
  function drawStrip(u, marks) {
    clipped(u, (ctx, bbox, x, px) => {
      const half = bbox.height / 2;
      ctx.font = `${11 * px}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      marks.serving.forEach(([from, to, name], i) => {
        const [left, right] = [Math.max(x(from), bbox.left), Math.min(x(to), bbox.left + bbox.width)];
        if (right <= left) return;
        ctx.fillStyle = STYLE.serving[i % 2];
        ctx.fillRect(left, bbox.top, right - left, half - px);
        ctx.fillStyle = STYLE.ink;
        const fitting = [name, name.split(", ")[0]].find((text) => ctx.measureText(text).width < right - left - 6 * px);
        if (fitting) ctx.fillText(fitting, (left + right) / 2, bbox.top + half / 2);
      });
      ctx.fillStyle = STYLE.loss;
      for (const [from, to] of marks.loss) {
        ctx.fillRect(x(from), bbox.top + half + px, Math.max(x(to) - x(from), 2 * px), half - px);
      }
    });
    const { ctx, bbox } = u;
    const px = uPlot.pxRatio;
    ctx.font = `${11 * px}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillStyle = STYLE.ink;
    ctx.fillText("serving", bbox.left - 8 * px, bbox.top + bbox.height / 4);
    ctx.fillText("loss", bbox.left - 8 * px, bbox.top + (3 * bbox.height) / 4);
  }

  class ChartView {
    constructor(chart, parent) {
      this.chart = chart;
      this.key = `bentpipe-${(groups += 1)}`;
      this.plots = [];
      this.cells = [];
      const root = element(parent, "div", "chart");
      root.tabIndex = 0;
      root.setAttribute("role", "group");
      root.setAttribute(
        "aria-label",
        `${chart.title}: interactive figure. Arrow keys move the pointer, plus and minus zoom, 0 resets.`,
      );
      const head = element(root, "div", "chart-head");
      const bar = element(head, "div", "chart-bar");
      element(bar, "strong", "", chart.title);
      this.pointer = element(bar, "span", "chart-pointer");
      const reset = element(bar, "button", "", "Reset zoom");
      reset.type = "button";
      reset.addEventListener("click", () => this.reset());
      this.legend(head);
      const stack = element(root, "div", chart.kind === "cdf" ? "panels beside" : "panels");
      if (chart.marks && (chart.marks.serving.length || chart.marks.loss.length)) this.strip(stack);
      chart.panels.forEach((panel, i) => this.panel(stack, panel, i));
      root.addEventListener("keydown", (event) => this.press(event));
      new ResizeObserver(() => this.fit()).observe(stack);
      this.reset();
      this.say(null);
    }

    // One row per flow: a button that hides or shows it, and its values at the pointer.
    legend(parent) {
      const table = element(parent, "table", "chart-legend");
      const heads = element(element(table, "thead"), "tr");
      element(heads, "th", "", "Hide or show").scope = "col";
      for (const panel of this.chart.panels) {
        const head = element(heads, "th", "n", panel.short);
        head.scope = "col";
        element(head, "small", "", this.chart.kind === "cdf" ? "share at or below" : panel.unit);
      }
      const body = element(table, "tbody");
      this.chart.entries.forEach((entry, i) => {
        const row = element(body, "tr");
        const name = element(row, "th");
        name.scope = "row";
        const button = element(name, "button");
        button.type = "button";
        button.disabled = entry.absent;
        button.setAttribute("aria-pressed", String(!entry.absent));
        const swatch = element(button, "span", entry.dashes.length ? "swatch dashed" : "swatch");
        swatch.style.borderTopColor = entry.colour;
        element(button, "span", "", entry.name);
        button.addEventListener("click", () => this.toggle(i, button));
        for (const event of ["mouseenter", "focus"]) button.addEventListener(event, () => this.emphasise(i));
        for (const event of ["mouseleave", "blur"]) button.addEventListener(event, () => this.emphasise(null));
        this.cells.push(this.chart.panels.map(() => element(row, "td", "n")));
      });
    }

    strip(stack) {
      const options = this.options(HEIGHT_PX.strip, { from_zero: true, ticks: [] }, [{}, {}]);
      options.axes[0].show = false;
      options.axes[1] = { size: AXIS_PX, values: () => [], grid: { show: false }, ticks: { show: false } };
      options.padding = [2, 12, 0, 0];
      options.cursor.points = { show: false };
      options.hooks.draw = [(u) => drawStrip(u, this.chart.marks)];
      const data = [[0, this.chart.end], [null, null]];
      this.plots.push({ u: new uPlot(options, data, element(stack, "div")), entries: [], panel: null, data });
    }

    panel(stack, panel, i) {
      const { chart } = this;
      const box = element(stack, "div");
      element(box, "p", "panel-title", chart.kind === "cdf" ? panel.title : `${panel.title} [${panel.unit}]`);
      const lines = panel.lines.filter((line) => line.y.length);
      const data = lines.length ? uPlot.join(lines.map((line) => columns(chart, line))) : [[]];
      const series = lines.map((line) => {
        const entry = chart.entries[line.entry];
        return {
          label: entry.name,
          stroke: entry.colour,
          width: line.step ? 1.2 : 1.6,
          dash: entry.dashes.length ? entry.dashes.map((part) => 2 * part) : undefined,
          points: { show: line.y.length === 1 },
          paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        };
      });
      const isLast = chart.kind === "cdf" || i === chart.panels.length - 1;
      const height = chart.kind === "cdf" ? HEIGHT_PX.cdf : i ? HEIGHT_PX.other : HEIGHT_PX.first;
      const options = this.options(height + (isLast ? HEIGHT_PX.labels : 0), panel, [{}, ...series]);
      if (isLast) {
        options.axes[0].label = chart.kind === "cdf" ? panel.unit : "Time since the run began [s]";
        options.axes[0].labelSize = 20;
        options.axes[0].size = 30;
      } else {
        options.axes[0].values = () => [];
        options.axes[0].size = 8;
      }
      if (chart.kind === "cdf") options.scales.y.range = () => [0, 1];
      const { marks } = chart;
      if (marks) options.hooks.drawClear = [(u) => drawMarks(u, marks)];
      options.hooks.draw = [
        (u) => {
          if (marks && i === 0) drawHandovers(u, marks);
          drawTicks(u, panel, chart.entries);
        },
      ];
      options.hooks.setCursor = [(u) => this.show(u, i, lines)];
      options.cursor.dataIdx = (u, number, index) => (number ? nearest(u.data[number], index) : index);
      const u = new uPlot(options, data, box);
      this.plots.push({ u, entries: lines.map((line) => line.entry), panel, data });
    }

    options(height, panel, series) {
      const axis = { stroke: STYLE.ink, font: FONT, labelFont: FONT, grid: { stroke: STYLE.grid, width: 1 } };
      axis.ticks = { stroke: STYLE.slot, width: 1, size: 4 };
      return {
        width: 600,
        height,
        series,
        pxAlign: 0,
        padding: [8, 12, 0, 0],
        legend: { show: false },
        scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { range: range(panel) } },
        axes: [{ ...axis, grid: { show: false } }, { ...axis, size: AXIS_PX }],
        focus: { alpha: 0.2 },
        cursor: {
          y: false,
          sync: this.chart.kind === "time" ? { key: this.key, setSeries: false } : undefined,
          drag: { x: true, y: false },
          points: { size: 6 },
          bind: { dblclick: () => () => this.reset() },
        },
        hooks: { setScale: [(u, key) => key === "x" && this.follow(u)] },
      };
    }

    // Panels over time show the same time.
    follow(u) {
      if (this.chart.kind !== "time" || this.isFollowing) return;
      this.isFollowing = true;
      const { min, max } = u.scales.x;
      for (const plot of this.plots) if (plot.u !== u) plot.u.setScale("x", { min, max });
      this.isFollowing = false;
    }

    reset() {
      for (const { u, panel, data } of this.plots) u.setScale("x", whole(this.chart, panel, data));
    }

    zoom(factor) {
      for (const plot of this.plots) {
        const { min, max } = plot.u.scales.x;
        const limits = whole(this.chart, plot.panel, plot.data);
        const middle = this.at !== null && this.chart.kind === "time" ? this.at : (min + max) / 2;
        const low = Math.max(limits.min, middle - (middle - min) * factor);
        const high = Math.min(limits.max, middle + (max - middle) * factor);
        if (high > low) plot.u.setScale("x", { min: low, max: high });
      }
    }

    move(step) {
      const before = this.at;
      for (const { u } of this.plots) {
        const { min, max } = u.scales.x;
        const from = before === null || before < min || before > max ? min : before;
        const at = Math.min(max, Math.max(min, from + (step * (max - min)) / 100));
        u.setCursor({ left: u.valToPos(at, "x"), top: u.over.clientHeight / 2 }, true, false);
      }
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowLeft: () => this.move(event.shiftKey ? -10 : -1),
        ArrowRight: () => this.move(event.shiftKey ? 10 : 1),
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        0: () => this.reset(),
        Escape: () => this.reset(),
      };
      if (!Object.hasOwn(actions, event.key)) return;
      event.preventDefault();
      actions[event.key]();
    }

    toggle(entry, button) {
      const isHidden = !this.chart.entries[entry].hidden;
      this.chart.entries[entry].hidden = isHidden;
      button.setAttribute("aria-pressed", String(!isHidden));
      for (const { u, entries } of this.plots) {
        entries.forEach((each, k) => each === entry && u.setSeries(k + 1, { show: !isHidden }));
        u.redraw();
      }
    }

    emphasise(entry) {
      for (const { u, entries } of this.plots) {
        const k = entries.indexOf(entry);
        if (entry === null || k < 0) u.setSeries(null, { focus: false });
        else u.setSeries(k + 1, { focus: true });
      }
    }

    // Write the values of a panel at the pointer.
    show(u, column, lines) {
      const isOutside = u.cursor.left === undefined || u.cursor.left < 0 || u.cursor.idx === null;
      const written = new Set();
      lines.forEach((line, k) => {
        const index = isOutside ? null : u.cursor.idxs[k + 1];
        const value = index === null || index === undefined ? null : u.data[k + 1][index];
        const cell = this.cells[line.entry][column];
        if (written.has(line.entry) && value === null) return;
        written.add(line.entry);
        cell.textContent =
          isOutside ? "" : this.chart.kind === "cdf" ? `${(100 * (value ?? 0)).toFixed(0)} %` : number(value);
      });
      this.say(isOutside ? null : u.posToVal(u.cursor.left, "x"), this.chart.panels[column].unit);
    }

    say(at, unit) {
      this.at = at;
      if (at === null) this.pointer.textContent = "Drag: zoom · double click: reset · click a name: hide or show";
      else this.pointer.textContent = this.chart.kind === "cdf" ? `at ${number(at)} ${unit}` : `at ${at.toFixed(1)} s`;
    }

    fit() {
      for (const { u } of this.plots) {
        const width = Math.floor(u.root.parentElement.clientWidth);
        if (width > AXIS_PX && width !== u.width) u.setSize({ width, height: u.height });
      }
    }
  }

  function draw(figure) {
    const views = document.createElement("div");
    figure.prepend(views);
    try {
      for (const data of figure.querySelectorAll("script[type='application/json']")) {
        new ChartView(JSON.parse(data.textContent), views);
      }
      figure.classList.add("drawn");
    } catch (error) {
      views.remove();
      console.error(error);
    }
  }

  // A chart is drawn when it comes near the window: a page may have dozens.
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "800px" },
  );
  for (const figure of document.querySelectorAll("figure.live")) near.observe(figure);

  // Paper has no folds.
  const unfolded = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      unfolded.push(details);
    }
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded.splice(0)) details.open = false;
  });
})();
