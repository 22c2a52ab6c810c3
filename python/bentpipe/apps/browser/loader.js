"use strict";
// Loads the objects of GRAPH as they lead to each other: [address, kind, number of the object that leads to it, computation in ms]. An object whose number
// is that of the document itself is complete when this script runs. `loaded` has the time of the last arrival, once all have arrived.
window.loaded = null;
window.arrivals = GRAPH.map(() => null);
window.largest_ms = null;
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) window.largest_ms = entry.startTime;
}).observe({type: "largest-contentful-paint", buffered: true});

let missing = GRAPH.length - 1, failed = 0;

function arrived(number, ok) {
  if (ok) arrivals[number] = performance.now();
  else failed += 1;
  missing -= 1;
  if (missing === 0) window.loaded = {at_ms: performance.now(), failed};
  follow(number);
}

const element = {
  style: address => Object.assign(document.createElement("link"), {rel: "stylesheet", href: address}),
  script: address => Object.assign(document.createElement("script"), {src: address}),
  image: address => Object.assign(document.createElement("img"), {src: address, width: 220, height: 60}),
};

function fetchObject(number) {
  const [address, kind] = GRAPH[number];
  const make = element[kind];
  if (!make) {
    fetch(address).then(answer => answer.arrayBuffer()).then(() => arrived(number, true), () => arrived(number, false));
    return;
  }
  const node = make(address);
  node.onload = () => arrived(number, true);
  node.onerror = () => arrived(number, false);
  (kind === "image" ? document.body : document.head).append(node);
}

function follow(parent) {
  GRAPH.forEach(([, , after, compute_ms], number) => {
    if (number > 0 && after === parent) setTimeout(fetchObject, compute_ms, number);
  });
}

if (missing === 0) window.loaded = {at_ms: performance.now(), failed};
follow(0);
