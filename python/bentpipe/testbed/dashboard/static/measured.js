// The figures of a run's results, on one axis of time: data from the server, thinned there; their numbers are in the table.
"use strict";

(() => {
  const MARGIN_S = 2;

  // One array of times, and one of values for each line: null where a probe was lost, undefined where the line has no value.
  function joined(lines) {
    return uPlot.join(
      lines.map((line) => [line.at_ms.map((at) => at / 1000), line.values]),
      lines.map(() => [0, 1]),
    );
  }

  async function show(holder) {
    const answer = await fetch(holder.dataset.figures);
    if (!answer.ok) return;
    const { ends, marks } = await answer.json();
    const all = Object.entries(ends).flatMap(([end, { figures }]) => figures.map((figure) => ({ end, ...figure })));
    const times = all.flatMap(({ lines }) => lines.flatMap(({ at_ms }) => [at_ms[0], at_ms.at(-1)])).filter(Number.isFinite);
    if (!times.length) return;
    const span = [Math.min(...times) / 1000 - MARGIN_S, Math.max(...times) / 1000 + MARGIN_S];
    for (const [index, { end, title, unit, lines, marks_lost }] of all.entries()) {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      caption.textContent = `${title}${unit ? ` [${unit}]` : ""}${Object.keys(ends).length > 1 ? `, ${end}` : ""}`;
      figure.append(caption);
      holder.append(figure);
      window.drawChart(figure, {
        title,
        unit,
        labels: lines.map(({ name }) => name || title),
        values: joined(lines),
        span,
        marks: marks.map(({ at_ms, text }) => ({ at: at_ms / 1000, text: index ? "" : text })),
        hasLost: marks_lost,
        sync: "measured",
      });
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const holder = document.getElementById("measured");
    if (holder) show(holder);
  });
})();
