// Live pages: a change at the orchestrator lets htmx fetch the parts of the page that have data-live. Times get their
// local form as a title.
"use strict";

(() => {
  const LEAST_MS = 1000; // between two refreshes

  function addLocalTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
      const moment = new Date(time.dateTime);
      if (!Number.isNaN(moment.getTime())) time.title = `${moment.toLocaleString()} local time`;
    }
  }

  function follow() {
    const connection = document.getElementById("connection");
    if (!connection) return; // nobody is logged in
    let last = null;
    let waits = false;
    const source = new EventSource("/live");
    source.addEventListener("changed", (event) => {
      connection.textContent = "";
      if (last === null || last === event.data) {
        last = event.data;
        return;
      }
      last = event.data;
      if (waits) return;
      waits = true;
      setTimeout(() => {
        waits = false;
        if (!document.hidden) document.body.dispatchEvent(new CustomEvent("changed"));
      }, LEAST_MS);
    });
    source.addEventListener("error", () => {
      connection.textContent = "The connection is lost; trying again.";
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) document.body.dispatchEvent(new CustomEvent("changed"));
    });
    addEventListener("pagehide", () => source.close());
  }

  document.addEventListener("DOMContentLoaded", () => {
    addLocalTimes(document);
    follow();
  });
  document.addEventListener("htmx:after:swap", () => addLocalTimes(document));
})();
