"use strict";
// The 3D view of chemiscope: its zoom, the atom that was chosen, and arrows of forces. Its source calls `fitted` when the
// view is reset and `loaded` when a structure is there (report/viewer.py puts these calls in).
window.qmlView = (function () {
  const ATOM = 0.45; // Å around each atom and corner of the cell that are seen
  const LEAST = 1.6; // Å: half the width of the view for the smallest molecules
  const ROOM = 1.04;
  const ARROW = 1.6; // Å, length of the arrow of the largest force
  const CHOSEN = "#d55e00", REFERENCE = "#0072b2", PREDICTED = "#e69f00";
  let shown = null; // viewer of 3Dmol and the structure in it
  let marks = [];
  let wanted = { structure: null, atom: -1, forces: null };

  // corners of the cell besides the atoms, which 3Dmol knows
  function corners(cell) {
    if (!cell) return [];
    const out = [];
    for (let k = 0; k < 8; k++) {
      out.push([0, 1, 2].map((c) => (k & 1) * cell[c] + ((k >> 1) & 1) * cell[3 + c] + (k >> 2) * cell[6 + c]));
    }
    return out;
  }

  // turned by a quaternion (x, y, z, w)
  function turned(q, p) {
    const [x, y, z, w] = q;
    const t = [2 * (y * p[2] - z * p[1]), 2 * (z * p[0] - x * p[2]), 2 * (x * p[1] - y * p[0])];
    return [
      p[0] + w * t[0] + y * t[2] - z * t[1],
      p[1] + w * t[1] + z * t[0] - x * t[2],
      p[2] + w * t[2] + x * t[1] - y * t[0],
    ];
  }

  // all atoms and the cell, as large as the view allows from where it looks
  function fitted(viewer, current) {
    viewer.zoomTo();
    const view = viewer.getView(), q = view.slice(4), back = [-q[0], -q[1], -q[2], q[3]];
    const points = viewer.selectedAtoms({}).map((one) => [one.x, one.y, one.z]);
    const seen = points.concat(corners(current && current.structure.cell)).map((p) => turned(q, p));
    if (!seen.length) return;
    const middle = [0, 1, 2].map((c) => {
      let low = Infinity, high = -Infinity;
      for (const p of seen) { low = Math.min(low, p[c]); high = Math.max(high, p[c]); }
      return (low + high) / 2;
    });
    // 3Dmol looks without perspective here: at a distance d, half the width of the view is d tan(fov)
    const across = Math.tan((Math.PI / 180) * viewer.fov), up = (across * viewer.HEIGHT) / viewer.WIDTH || across;
    let away = LEAST / Math.min(up, across);
    for (const p of seen) {
      away = Math.max(away, (Math.abs(p[0] - middle[0]) + ATOM) / across, (Math.abs(p[1] - middle[1]) + ATOM) / up);
    }
    const centre = turned(back, middle);
    viewer.setView([-centre[0], -centre[1], -centre[2], viewer.CAMERA_Z - ROOM * away, ...q]);
  }

  function draw() {
    if (!shown) return;
    for (const mark of marks) shown.viewer.removeShape(mark);
    marks = [];
    const s = wanted.structure, viewer = shown.viewer;
    if (s && shown.structure === s) {
      const at = (k) => ({ x: s.x[k], y: s.y[k], z: s.z[k] });
      if (wanted.atom >= 0) marks.push(viewer.addSphere({ center: at(wanted.atom), radius: 0.6, color: CHOSEN, wireframe: true, linewidth: 2 }));
      if (wanted.forces) arrows(viewer, s, at);
    }
    viewer.render();
  }

  function arrows(viewer, s, at) {
    const kinds = [[wanted.forces.reference, REFERENCE, 0.13, 0.45], [wanted.forces.predicted, PREDICTED, 0.05, 1]];
    const length = (values, k) => Math.hypot(values[3 * k], values[3 * k + 1], values[3 * k + 2]);
    let largest = 1e-9;
    for (const [values] of kinds) for (let k = 0; k < s.size; k++) largest = Math.max(largest, length(values, k));
    for (const [values, color, radius, opacity] of kinds) { // the thin one is seen inside the other
      for (let k = 0; k < s.size; k++) {
        if (!(length(values, k) > 0.02 * largest)) continue;
        const start = at(k), end = {};
        ["x", "y", "z"].forEach((axis, c) => { end[axis] = start[axis] + (ARROW * values[3 * k + c]) / largest; });
        marks.push(viewer.addArrow({ start, end, radius, radiusRatio: 2.2, mid: 0.7, color, opacity }));
      }
    }
  }

  return {
    fitted,
    loaded(viewer, current) { shown = { viewer, structure: current.structure }; marks = []; draw(); },
    show(structure, atom, forces) { wanted = { structure, atom, forces }; draw(); },
    marks: () => marks.length,
  };
})();
