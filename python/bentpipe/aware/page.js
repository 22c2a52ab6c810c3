"use strict";
const element = (id) => document.getElementById(id);
let next = null, received = 0;
const show = (id, text) => { element(id).textContent = text; };
const rate = (bps) => bps === null ? "–" : `${(bps / 1e6).toFixed(2)} Mbit/s`;
const events = new EventSource("v1/events");
events.addEventListener("open", () => show("state", "connected"));
events.addEventListener("error", () => { next = null; show("state", "no connection; trying again"); });
events.addEventListener("next", (message) => {
  next = JSON.parse(message.data);
  received = performance.now();
  show("next-note", next.error_s === null ? next.reason : `within ±${next.error_s.toFixed(1)} s`);
});
events.addEventListener("telemetry", (message) => {
  const sample = JSON.parse(message.data);
  show("latency", sample.latency_ms === null ? (sample.reason ?? "–") : `${sample.latency_ms.toFixed(1)} ms`);
  show("down", rate(sample.downlink_bps));
  show("up", rate(sample.uplink_bps));
  show("state", sample.reason ?? `connected; firmware ${sample.software_version ?? "unknown"}`);
});
events.addEventListener("serving", (message) => {
  const serving = JSON.parse(message.data);
  show("satellite", serving.satellite ?? serving.reason);
});
events.addEventListener("forecast", (message) => {
  const { forecasts, reason } = JSON.parse(message.data);
  const texts = forecasts.map((each) => `${each.values[Math.floor(each.values.length / 2)].toFixed(1)} ${each.unit} (90 % in ${each.values[0].toFixed(1)} to ${each.values[each.values.length - 1].toFixed(1)})`);
  show("forecast", texts.join("; ") || reason);
});
setInterval(() => {
  if (next === null || next.edge_s === null) { show("next", "–"); return; }
  const left = next.in_s - (performance.now() - received) / 1000;
  show("next", `${(((left % next.period_s) + next.period_s) % next.period_s).toFixed(1)} s`);
}, 100);
