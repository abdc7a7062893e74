// The dialog that restores an archive: as a new tenant, or in place of its tenant.

import { ARCHIVES, get, HEALTH, send, TENANTS } from "./api.js";
import { dialog } from "./dialogs.js";
import { el } from "./dom.js";
import { field, form, input } from "./forms.js";
import { localTime } from "./format.js";
import { notice } from "./widgets.js";

const NEW_TEXT = "It has another id and no API key: add one on its page. Its users must log in.";
const IN_PLACE_TEXT =
  "It is suspended during the restore, and all logins and McpTokens of its users end. " +
  "Its old database is kept.";
const ENGINES = { sqlite: "SQLite", postgresql: "PostgreSQL" };

/** Ask how an archive is restored, and queue that. */
export async function restoreDialog(archive, queued) {
  const now = await tenantOf(archive);
  const obstacle = now && (await obstacleOf(archive, now));
  return dialog(`Restore ${archive.tenantName}`, (close) => {
    const restore = async (path, body) => {
      await send("POST", path, { archive: archive.name, ...body });
      close();
      await queued();
    };
    const name = () => input("name", { required: true });
    return [
      el("p", {}, `The archive of ${localTime(archive.createdAt)}.`),
      el("h3", {}, "As a new tenant"),
      form(
        [field("Name of the new tenant", name(), NEW_TEXT)],
        { action: "Restore as new", kind: "" },
        (data) => restore(`${ARCHIVES}/restore`, { name: data.get("name") }),
      ),
      el("h3", {}, now === null ? "As it was" : `In place of ${now.name}`),
      now === null
        ? form(
            [el("p", {}, "It comes back with its id, its name and its API keys.")],
            { action: "Restore as it was", cancel: close, kind: "" },
            () => restore(`${ARCHIVES}/restore`, {}),
          )
        : obstacle !== null
          ? notice("warning", obstacle)
          : form(
              [
                notice(
                  "warning",
                  `It stays on the tenant server ${now.serverName}. ${IN_PLACE_TEXT}`,
                ),
                field("Type the name of the tenant", name()),
              ],
              { action: "Restore in place", cancel: close, kind: "danger" },
              (data) => restore(`${TENANTS}/${now.id}/restore`, { name: data.get("name") }),
            ),
    ];
  });
}

/** Why an archive cannot replace its tenant: it may have been moved to the other engine since. */
async function obstacleOf({ engine }, { name, serverName }) {
  const { servers } = await get(HEALTH);
  const now = servers.find((one) => one.name === serverName)?.engine ?? engine;
  return now === engine
    ? null
    : `This is an archive of ${ENGINES[engine]}, and ${name} is on the tenant server ` +
        `${serverName} of ${ENGINES[now]} now, so it is not replaced from here. Restore it as a ` +
        "new tenant, or use tenantry backup restore --replace --server.";
}

/** The tenant of an archive, or null if it does not exist. */
async function tenantOf(archive) {
  try {
    return await get(`${TENANTS}/${encodeURIComponent(archive.tenantId)}`);
  } catch (error) {
    if (error.status === 404) {
      return null;
    }
    throw error;
  }
}
