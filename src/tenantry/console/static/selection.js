// The tenants of a run that is planned: all, one, chosen ones, those of a run to undo, or what is
// still failing.

import { get, HISTORY, latestOf, RUNS, SCHEMA_STATUS, TENANTS } from "./api.js";
import { el, fill } from "./dom.js";
import { isFleet, plural } from "./format.js";
import { keepQuery } from "./router.js";
import { whereField } from "./where.js";

const KEY = "tenantry.chosen"; // of the tab: an address cannot hold a thousand ids
const LOST = "The tenants that were chosen are not known in this tab. Choose them again.";
const HINT = "Only the tenants that this expression selects. Empty: every active tenant.";
const FIXED = "Every tenant that failed there has been migrated since: nothing is left to retry.";

/** Keep the ids of chosen tenants, and return the path of the form that plans a run of them. */
export function planOf(ids) {
  sessionStorage.setItem(KEY, JSON.stringify(ids));
  return `/runs/plan?chosen=${ids.length}`;
}

/** Return the selected tenants, as the body of a request, a description and their number. */
export async function selectionOf(query, signal) {
  const tenant = query.get("tenant");
  if (tenant !== null) {
    const now = await get(`${TENANTS}/${encodeURIComponent(tenant)}`, { signal });
    const description = `One tenant: ${now.name}.`;
    return { body: { tenantIds: [tenant] }, description, total: 1, obstacle: obstacleOf(now) };
  }
  const undo = query.get("undo");
  if (undo !== null) {
    const path = `${HISTORY}/${encodeURIComponent(undo)}/undo`;
    const run = await get(`${RUNS}/${encodeURIComponent(undo)}`, { signal });
    const description =
      `Undo the run “${run.label ?? run.id}”: the downgrade() of what it has applied to each of ` +
      `${plural(run.totalCount, "tenant")}. Tenants that were migrated since are left as they are.`;
    return { path, body: {}, description, total: run.totalCount };
  }
  if (query.get("chosen") !== null) {
    const tenantIds = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    const total = tenantIds.length;
    const obstacle = total === 0 ? LOST : null;
    const description = `The ${plural(total, "tenant")} that you have chosen.`;
    return { body: { tenantIds }, description, total, obstacle };
  }
  const retryOf = query.get("retryOf");
  if (retryOf !== null) {
    return retryOfRun(retryOf, query.get("cause"), signal);
  }
  const { total, behind, unknown } = await get(SCHEMA_STATUS, { signal });
  const description = `All ${plural(total, "active tenant")}.`;
  return { body: {}, description, total, left: behind + unknown };
}

/**
 * Whom a run is of: the element that describes it, their number, null while it is not known, and
 * for all tenants the field of an expression; `changed` is called when the number has changed.
 */
export function targetOf(selection, query, signal, changed) {
  const description = el("p", {}, selection.description);
  let { total } = selection;
  const target = {
    description,
    field: /** @type {HTMLElement|false} */ (false),
    total: () => total,
  };
  if (selection.left === undefined) {
    return target;
  }
  const next = latestOf(signal);
  const where = whereField(query.get("where") ?? "", set, HINT);

  async function set(text) {
    const ours = next();
    keepQuery({ ...Object.fromEntries(query), where: text });
    total = text === "" ? selection.total : null;
    fill(description, text === "" ? selection.description : "Counting the tenants…");
    if (text !== "") {
      try {
        total = await countOf(text, ours);
        fill(description, `The ${plural(total, "active tenant")} where ${text}.`);
      } catch (error) {
        if (ours.aborted) {
          return;
        }
        fill(description, where.refuses(error) ? "No tenants: see the field." : error.message);
      }
    }
    changed();
  }

  if (where.control.value !== "") {
    set(where.control.value);
  }
  target.field = where.element;
  return target;
}

async function countOf(where, signal) {
  const query = { where, isActive: "true", isReadOnly: "false", pageSize: 1 };
  return (await get(TENANTS, { query, signal })).totalCount;
}

/** What is still failing: another run may have migrated some since. */
async function retryOfRun(retryOf, cause, signal) {
  const path = `${HISTORY}/${encodeURIComponent(retryOf)}/failure-causes`;
  const { items } = await get(path, { signal });
  const chosen = items.filter((one) => cause === null || one.cause === cause);
  const total = chosen.reduce((sum, one) => sum + one.left, 0);
  const what = cause === null ? "in the chosen run" : `with “${cause}”`;
  const tenants = plural(total, "tenant");
  const description = `The ${tenants} that failed ${what}, without those migrated since.`;
  const obstacle = total === 0 ? FIXED : null;
  return { body: { retryOf, ...(cause === null ? {} : { cause }) }, description, total, obstacle };
}

function obstacleOf({ name, isActive, isReadOnly }) {
  if (isActive && !isReadOnly) {
    return null;
  }
  if (isFleet) {
    return `${name} is not in the list of databases, and migration runs skip it.`;
  }
  const [state, remedy] = isActive
    ? ["read-only", "Make it writable"]
    : ["suspended", "Activate it"];
  return `${name} is ${state}, and migration runs skip it. ${remedy} on its page first.`;
}
