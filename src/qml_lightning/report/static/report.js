"use strict";
// Plots of predictions against references, linked with a 3D view: click a point, see its structure.
(function () {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const canvas = document.getElementById("plot");
  const state = { plot: 0, errors: false, structure: -1, atom: -1, point: -1, arrows: false };
  const MARGIN = { left: 64, right: 12, top: 10, bottom: 46 };
  let places = { x: [], y: [] };
  let viewer = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * [1, 2, 5, 10].find((f) => rough <= f * power);
    const out = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) out.push(t);
    return { out, digits: Math.max(0, -Math.floor(Math.log10(step))) };
  }

  const label = (value, digits) => (Math.abs(value) < 1e-12 ? 0 : value).toFixed(digits).replace("-", "−");

  function span(values) {
    let low = Infinity, high = -Infinity;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    const room = 0.04 * (high - low) || 1;
    return [low - room, high + room];
  }

  function draw() {
    const plot = report.plots[state.plot];
    if (!plot) return;
    const width = canvas.clientWidth, height = Math.min(width, 540), ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const to = canvas.getContext("2d");
    to.scale(ratio, ratio);
    const ink = colour("--ink"), line = colour("--line"), soft = colour("--soft");
    const ys = state.errors ? plot.y.map((v, k) => plot.scale * (v - plot.x[k])) : plot.y;
    let xs = span(plot.x), yr = span(ys);
    if (!state.errors) xs = yr = [Math.min(xs[0], yr[0]), Math.max(xs[1], yr[1])];
    const X = (v) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * (v - xs[0])) / (xs[1] - xs[0]);
    const Y = (v) => height - MARGIN.bottom - ((height - MARGIN.top - MARGIN.bottom) * (v - yr[0])) / (yr[1] - yr[0]);
    to.font = "12px system-ui, sans-serif";
    to.fillStyle = soft;
    to.strokeStyle = line;
    to.lineWidth = 1;
    const across = ticks(xs[0], xs[1], width < 420 ? 4 : 6), up = ticks(yr[0], yr[1], 6);
    to.textAlign = "center";
    for (const t of across.out) {
      to.beginPath(); to.moveTo(X(t), MARGIN.top); to.lineTo(X(t), height - MARGIN.bottom); to.stroke();
      to.fillText(label(t, across.digits), X(t), height - MARGIN.bottom + 16);
    }
    to.textAlign = "right";
    for (const t of up.out) {
      to.beginPath(); to.moveTo(MARGIN.left, Y(t)); to.lineTo(width - MARGIN.right, Y(t)); to.stroke();
      to.fillText(label(t, up.digits), MARGIN.left - 6, Y(t) + 4);
    }
    to.textAlign = "center";
    to.fillStyle = ink;
    // the last number is the most room for the words: on a phone long ones become narrower
    to.fillText("reference " + plot.words + " (" + plot.unit + ")", (MARGIN.left + width - MARGIN.right) / 2, height - 8,
      width - MARGIN.left - MARGIN.right);
    to.save();
    to.translate(14, (height - MARGIN.bottom + MARGIN.top) / 2);
    to.rotate(-Math.PI / 2);
    to.fillText(state.errors ? "error (" + plot.errorUnit + ")" : "predicted (" + plot.unit + ")", 0, 0);
    to.restore();
    to.strokeStyle = ink;
    to.beginPath();
    if (state.errors) { to.moveTo(X(xs[0]), Y(0)); to.lineTo(X(xs[1]), Y(0)); }
    else { to.moveTo(X(xs[0]), Y(xs[0])); to.lineTo(X(xs[1]), Y(xs[1])); }
    to.stroke();
    places = { x: plot.x.map(X), y: ys.map(Y) };
    const size = plot.x.length > 3000 ? 1.5 : plot.x.length > 300 ? 2.2 : 3.2;
    const colours = plot.kinds.map((kind) => colour(kind.colour));
    to.globalAlpha = plot.x.length > 300 ? 0.65 : 0.85;
    for (let k = 0; k < plot.x.length; k++) {
      to.fillStyle = colours[plot.kind[k]];
      to.beginPath(); to.arc(places.x[k], places.y[k], size, 0, 7); to.fill();
    }
    to.globalAlpha = 1;
    // the points of the selected structure: rings, which would hide each other if they are many
    to.strokeStyle = ink;
    const own = plot.x.map((_, k) => k).filter((k) => plot.structure[k] === state.structure);
    for (const k of own) {
      // the point that was clicked, or else all of the chosen atom; where there are no atoms, all of the structure
      const chosen = state.point >= 0 ? k === state.point : plot.atom ? plot.atom[k] === state.atom : true;
      const radius = chosen && (state.point >= 0 || own.length < 60 || plot.atom) ? 6 : own.length < 60 ? 3.5 : 2;
      to.lineWidth = chosen ? 2 : 1;
      to.beginPath(); to.arc(places.x[k], places.y[k], radius, 0, 7); to.stroke();
    }
    legend(plot);
  }

  function legend(plot) {
    const at = document.getElementById("legend");
    at.textContent = "";
    for (const kind of plot.kinds) {
      if (!kind.name) continue;
      const one = document.createElement("span"), dot = document.createElement("i");
      dot.style.background = "var(" + kind.colour + ")";
      one.append(dot, kind.name);
      at.append(one);
    }
    const shown = plot.x.length < plot.total ? plot.x.length.toLocaleString("en") + " of " : "";
    const n = document.createElement("span");
    n.className = "soft";
    n.textContent = shown + plot.total.toLocaleString("en") + (plot.total === 1 ? " value" : " values");
    at.append(n);
  }

  // the point that was clicked, in words
  function words(plot, k) {
    const wrong = plot.scale * (plot.y[k] - plot.x[k]), sign = wrong < 0 ? "" : "+";
    const axis = plot.axis ? plot.axes[plot.axis[k]] : "";
    const of = plot.atom ? "atom " + plot.atom[k] + " (" + plot.kinds[plot.kind[k]].name + "), component " + axis + ": "
      : axis ? "component " + axis + ": " : "";
    return of + "reference " + label(plot.x[k], 3) + ", predicted " + label(plot.y[k], 3) + " " + plot.unit
      + ", error " + sign + label(wrong, Math.abs(wrong) < 10 ? 2 : 0) + " " + plot.errorUnit;
  }

  function select(structure, atom, options) {
    const { seen = false, point = -1 } = options || {};
    state.structure = structure;
    state.atom = atom === undefined || atom === null ? -1 : atom;
    state.point = point;
    document.body.dataset.structure = String(structure);
    const box = document.getElementById("selected"), table = document.createElement("table");
    table.className = "facts";
    const title = document.getElementById("viewer-name"), facts = report.facts;
    if (title) title.textContent = facts.structure[structure] + " · " + facts.formula[structure];
    const told = (name, text) => {
      const row = table.insertRow(), head = document.createElement("th");
      head.textContent = name;
      row.append(head);
      row.insertCell().textContent = text;
    };
    const plot = report.plots[state.plot];
    if (point >= 0 && plot.name !== "energy") told("this point", words(plot, point));
    for (const [name, values] of Object.entries(facts)) {
      const text = values[structure];
      if (text && !(title && (name === "structure" || name === "formula"))) told(name, text);
    }
    box.textContent = "";
    box.append(table);
    const at = report.viewed.indexOf(structure);
    if (viewer && at >= 0 && !seen) viewer.select({ structure: at, environment: at });
    mark(at);
    const note = document.getElementById("viewer-note");
    if (note && viewer) note.textContent = at >= 0 ? "" : "This structure is not in the 3D view: the page would be too large.";
    draw();
  }

  // the chosen atom and the arrows in the 3D view
  function mark(at) {
    if (!report.viewer || at < 0) return;
    const forces = state.arrows && { reference: report.arrows.reference[at], predicted: report.arrows.predicted[at] };
    qmlView.show(report.viewer.structures[at], state.atom, forces || null);
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = 16 * 16;
    for (let k = 0; k < places.x.length; k++) {
      const d = (places.x[k] - x) ** 2 + (places.y[k] - y) ** 2;
      if (d < least) { least = d; best = k; }
    }
    return best;
  }

  canvas.addEventListener("click", (event) => {
    const plot = report.plots[state.plot], k = nearest(event);
    if (k >= 0) select(plot.structure[k], plot.atom ? plot.atom[k] : -1, { point: k });
  });
  canvas.addEventListener("keydown", (event) => {
    const n = report.structures, at = state.structure;
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: n - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select((next + n) % n, -1);
  });
  for (const button of document.querySelectorAll("button[data-plot]")) {
    button.addEventListener("click", () => {
      state.plot = Number(button.dataset.plot);
      if (state.point >= 0) select(state.structure, state.atom, { seen: true });
      for (const other of document.querySelectorAll("button[data-plot]")) {
        other.setAttribute("aria-selected", String(other === button));
      }
      draw();
    });
  }
  const errors = document.getElementById("errors");
  if (errors) errors.addEventListener("click", () => {
    state.errors = !state.errors;
    errors.setAttribute("aria-pressed", String(state.errors));
    draw();
  });
  const arrows = document.getElementById("arrows");
  if (arrows) arrows.addEventListener("click", () => {
    state.arrows = !state.arrows;
    arrows.setAttribute("aria-pressed", String(state.arrows));
    document.getElementById("arrow-words").hidden = !state.arrows;
    mark(report.viewed.indexOf(state.structure));
  });
  for (const button of document.querySelectorAll("button[data-structure]")) {
    button.addEventListener("click", () => {
      select(Number(button.dataset.structure), Number(button.dataset.atom));
      document.getElementById("explorer").scrollIntoView({ behavior: "smooth", block: "start" });
    });
  }
  new ResizeObserver(draw).observe(canvas.parentElement);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  function ready() { document.body.dataset.ready = viewer ? "viewer" : "plots"; }
  // the source of the viewer is large: it is read beside the page, which can be used meanwhile
  function run() {
    const script = document.createElement("script"), source = document.getElementById("chemiscope").textContent;
    script.src = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    script.onload = view;
    document.getElementById("viewer-note").textContent = "Loading the 3D view …";
    document.body.append(script);
  }
  function view() {
    const note = document.getElementById("viewer-note"), warnings = new Chemiscope.Warnings();
    warnings.addHandler((message) => { note.textContent = message; });
    Chemiscope.StructureVisualizer.load({ meta: "viewer-meta", info: "viewer-info", structure: "viewer" }, report.viewer, warnings)
      .then((made) => { note.textContent = ""; viewer = made; follow(); select(state.structure, state.atom); ready(); })
      .catch((problem) => { note.textContent = "The 3D view cannot be shown: " + problem; ready(); });
  }
  // a structure that is chosen below the 3D view is marked in the plot, too; its number there would not be that of its file
  function follow() {
    tidy();
    for (const part of document.getElementById("viewer-info").children) {
      const numbers = part.shadowRoot && part.shadowRoot.querySelector(".chsp-info-btns");
      if (numbers) numbers.style.display = "none";
    }
    const info = viewer.info, own = info && info.onchange;
    if (own) info.onchange = (indexes) => { own(indexes); select(report.viewed[indexes.structure], -1, { seen: true }); };
  }
  // the page has one view: what serves several of them (its mark, a copy, its end) would only puzzle
  function tidy() {
    for (const part of document.getElementById("viewer").children) {
      if (!part.shadowRoot) continue;
      const marks = part.shadowRoot.querySelectorAll(".chsp-pin-marker, .fa-times, .fa-clone");
      for (const mark of marks) (mark.closest(".chsp-viewer-action-button") || mark).style.display = "none";
    }
  }
  window.qmlReport = { state, select, places: () => places, viewer: () => viewer };
  select(report.first, -1);
  if (report.viewer) window.addEventListener("load", () => setTimeout(run, 50));
  else ready();
})();
