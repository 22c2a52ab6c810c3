// The map: the land and the nodes, drawn by MapLibre from files of this server. Where WebGL is missing the drawn map
// of the page stays.
const script = document.querySelector("script[data-maplibre]");
const holder = document.getElementById("map");

function nodes() {
  return JSON.parse(document.getElementById("map-data").dataset.nodes);
}

function hasWebGl() {
  return Boolean(document.createElement("canvas").getContext("webgl2"));
}

async function show() {
  const { Map, Marker, NavigationControl, Popup } = await import(script.dataset.maplibre);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const picture = holder.firstElementChild;
  holder.replaceChildren();
  const map = new Map({
    container: holder,
    attributionControl: false,
    center: [5, 25],
    zoom: 0.8,
    dragRotate: false,
    style: {
      version: 8,
      sources: { land: { type: "geojson", data: new URL(holder.dataset.land, location.href).href } },
      layers: [
        { id: "sea", type: "background", paint: { "background-color": dark ? "#1d2127" : "#e9eff5" } },
        { id: "land", type: "fill", source: "land", paint: { "fill-color": dark ? "#3a424c" : "#c3ccd5" } },
      ],
    },
  });
  map.on("error", (event) => {
    console.warn(`map: ${event.error?.message ?? "error"}`);
    map.remove();
    holder.replaceChildren(picture);
  });
  map.addControl(new NavigationControl({ showCompass: false }));
  let markers = [];
  const place = () => {
    markers.forEach((marker) => marker.remove());
    markers = nodes().map(({ name, online, at }) => {
      const pin = document.createElement("button");
      pin.className = `pin ${online ? "good" : "bad"}`;
      pin.setAttribute("aria-label", `${name}, ${online ? "online" : "silent"}`);
      const link = document.createElement("a");
      link.href = `/nodes/${encodeURIComponent(name)}`;
      link.textContent = name;
      const marker = new Marker({ element: pin }).setLngLat(at);
      return marker.setPopup(new Popup({ offset: 12, closeButton: false }).setDOMContent(link)).addTo(map);
    });
  };
  place();
  document.addEventListener("htmx:after:swap", place);
  map.once("idle", () => holder.classList.add("drawn"));
}

if (holder && hasWebGl()) show();
