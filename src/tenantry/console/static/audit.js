// The audit log: who changed what, newest first.

import { ADMINS, AUDIT_LOG, get, TENANTS } from "./api.js";
import { el, onPause } from "./dom.js";
import { now } from "./format.js";
import { field, input, select } from "./forms.js";
import { listing } from "./listing.js";
import { cut, shortId, time } from "./widgets.js";

const ROWS_ON_A_PAGE = 50;
const NAMED_MAX = 25; // names that one page asks for
const VALUE_CHARS_MAX = 40;
const DAY_MS = 24 * 60 * 60 * 1000;
const FILTERS = ["actor", "action", "target", "since", "page"];
const PERIODS = [
  ["", "Any time"],
  ["1", "Last day"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Show the audit log. */
export async function view({ query, signal }) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const names = new Map();
  const columns = [
    { title: "When", by: "at", cell: (entry) => time(entry.at) },
    { title: "Action", by: "action", cell: (entry) => filterLink(entry.action, "action") },
    { title: "Target", kind: "name", cell: (entry) => targetOf(entry, names) },
    {
      title: "Actor",
      kind: "name",
      by: "actor",
      cell: (entry) => filterLink(entry.actor, "actor"),
    },
    { title: "Changes", kind: "minor wide", cell: (entry) => changesOf(entry.changes) },
    { title: "Address", kind: "minor code", by: "address", cell: (entry) => entry.address },
    { title: "Request", kind: "minor", cell: (entry) => shortId(entry.requestId, "request id") },
  ];

  const sinceOf = (days) =>
    days === "" ? "" : new Date(now() - Number(days) * DAY_MS).toISOString();
  const list = listing("Audit log", {
    path: AUDIT_LOG,
    columns,
    empty: "No entry matches.",
    signal,
    pageSize: ROWS_ON_A_PAGE,
    filters,
    query: () => ({ since: sinceOf(filters.since) }),
    loaded: ({ items }) => readNames(items, names, signal),
  });

  function set(changed) {
    Object.assign(filters, changed);
    for (const [name, control] of Object.entries(controls)) {
      if (control !== document.activeElement) {
        control.value = filters[name];
      }
    }
    return list.first();
  }

  function filterLink(text, name) {
    const press = () => set({ [name]: text });
    return el("button", { type: "button", class: "link cut", title: text, onclick: press }, text);
  }

  const controls = {
    actor: input("actor", { type: "search", value: filters.actor, placeholder: "ada@example.com" }),
    action: input("action", {
      type: "search",
      value: filters.action,
      placeholder: "tenant.create",
    }),
    target: input("target", { type: "search", value: filters.target, placeholder: "Id or name" }),
    since: select("since", PERIODS, filters.since),
  };
  for (const [name, control] of Object.entries(controls)) {
    onPause(control, (text) => set({ [name]: text.trim() }));
  }
  return [
    el("h1", {}, "Audit log"),
    el(
      "search",
      { class: "toolbar" },
      field("Actor", controls.actor),
      field("Action", controls.action),
      field("Target", controls.target),
      field("Period", controls.since),
    ),
    list.results,
  ];
}

/** A link with the name of the target, if there is one; else the text of the entry. */
function targetOf(entry, names) {
  const id = entry.tenantId ?? entry.target;
  if (entry.action.startsWith("migration-run.") && ID.test(entry.target.slice(0, 36))) {
    const [run, label] = [entry.target.slice(0, 36), entry.target.slice(37)];
    return el("a", { class: "cut", href: `#/runs/${run}` }, label || `Run ${run.slice(0, 8)}`);
  }
  const name = names.get(id);
  if (name) {
    return el("a", { class: "cut", href: name.href }, name.text);
  }
  return ID.test(entry.target) ? shortId(entry.target, "target") : cut(entry.target);
}

/** Read the names of tenants and admins that are not known yet; return whether there were any. */
async function readNames(entries, names, signal) {
  const ids = entries.map((entry) => entry.tenantId ?? entry.target).filter((id) => ID.test(id));
  const unknown = [...new Set(ids)].filter((id) => !names.has(id)).slice(0, NAMED_MAX);
  if (unknown.length === 0) {
    return false;
  }
  const admins = await get(ADMINS, { signal });
  for (const admin of admins.items) {
    names.set(admin.id, { text: admin.email, href: "#/admins" });
  }
  const tenants = unknown.filter((id) => !names.has(id));
  await Promise.all(
    tenants.map(async (id) => {
      const query = { search: id, pageSize: 1 };
      const [found] = (await get(TENANTS, { query, signal })).items;
      names.set(id, found && { text: found.name, href: `#/tenants/${id}` });
    }),
  );
  return true;
}

function changesOf(changes) {
  return changes
    .map(({ field: name, old, new: fresh }) =>
      fresh === undefined ? name : `${name}: ${changeOf(old, fresh)}`,
    )
    .join("; ");
}

function changeOf(old, fresh) {
  return (old ?? null) === null ? shortened(fresh) : `${shortened(old)} → ${shortened(fresh)}`;
}

function shortened(value) {
  const text = String(value ?? "–");
  return text.length > VALUE_CHARS_MAX ? `${text.slice(0, VALUE_CHARS_MAX)}…` : text;
}
