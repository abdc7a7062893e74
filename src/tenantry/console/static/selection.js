// The tenants of a run that is planned: all, one, those that failed, or those of a run to undo.

import { get, HISTORY, RUNS, SCHEMA_STATUS, TENANTS } from "./api.js";
import { plural } from "./format.js";

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
  const retryOf = query.get("retryOf");
  if (retryOf === null) {
    const { total } = await get(SCHEMA_STATUS, { signal });
    return { body: {}, description: `All ${plural(total, "active tenant")}.`, total };
  }
  const path = `${HISTORY}/${encodeURIComponent(retryOf)}`;
  const cause = query.get("cause");
  if (cause === null) {
    const run = await get(`${RUNS}/${encodeURIComponent(retryOf)}`, { signal });
    const description = `The ${plural(run.failedCount, "tenant")} that failed in the chosen run.`;
    return { body: { retryOf }, description, total: run.failedCount };
  }
  const { items } = await get(`${path}/failure-causes`, { signal });
  const total = items.find((one) => one.cause === cause)?.count ?? 0;
  const description = `The ${plural(total, "tenant")} that failed with “${cause}”.`;
  return { body: { retryOf, cause }, description, total };
}

function obstacleOf({ name, isActive, isReadOnly }) {
  if (isActive && !isReadOnly) {
    return null;
  }
  const [state, remedy] = isActive
    ? ["read-only", "Make it writable"]
    : ["suspended", "Activate it"];
  return `${name} is ${state}, and migration runs skip it. ${remedy} on its page first.`;
}
