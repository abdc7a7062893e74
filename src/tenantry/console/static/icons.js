// Line icons, drawn on a grid of 16 pixels.

import { svg } from "./dom.js";

const PATHS = {
  fleet: "M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z",
  runs: "M4 2.8v10.4L13 8z",
  tenants: "M2.5 4c0-2 11-2 11 0v8c0 2-11 2-11 0zM2.5 4c0 2 11 2 11 0M2.5 8c0 2 11 2 11 0",
  backups: "M2.5 3h11v3h-11zM3.5 6v7.5h9V6M6.5 9h3",
  audit: "M4 2.5h8v11H4zM6.3 5.5h3.4M6.3 8h3.4M6.3 10.5h2",
  admins: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8zM2.8 13.6c.6-6 9.8-6 10.4 0",
  health: "M1.8 8.5h3L6.6 4l2.8 8 1.8-3.5h3",
  docs: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14",
  theme: "M8 13.5A5.5 5.5 0 1 0 8 2.5zM8 2.5a5.5 5.5 0 0 0 0 11z",
  more: "M3.2 8h.1M8 8h.1M12.8 8h.1",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  warning: "M8 2.5 14.5 13.5h-13zM8 6.5v3.2M8 11.6h.1",
  out: "M9.5 11.5v2h-7v-11h7v2M6.5 8h7.5M11.5 5.5 14 8l-2.5 2.5",
};

/** An icon; it has no text of its own. */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] }),
  );
}

/** The mark of Tenantry: three tenants at the head, and one on its way. */
export function brand() {
  return svg(
    "svg",
    { class: "brand", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    svg("rect", { class: "brand-ground", width: 16, height: 16, rx: 4 }),
    svg("path", { class: "brand-cells", d: "M3.4 3.4h4v4h-4zM8.6 3.4h4v4h-4zM3.4 8.6h4v4h-4z" }),
    svg("path", { class: "brand-moving", d: "M8.6 8.6h4v4h-4z" }),
  );
}
