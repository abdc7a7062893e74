// What to check for a cause of failures, as the guide "When a tenant fails" says.

const SCHEMA =
  "Compare the schema and the rows of these tenants with those of others: the revision does not " +
  "fit them.";
/** @type {[RegExp, string][]} */
const REMEDIES = [
  [/^not attempted/, "These tenants were never started: their databases are unchanged."],
  [/does not exist, or cannot be opened/, "Check the data folder: the file is missing."],
  [/^The database does not exist/, "Check whether it was dropped or renamed; restore it."],
  [/was replaced/, "A backup was restored at the same time: migrate these tenants again."],
  [/not a database/, "The file was overwritten: restore it."],
  [/has been away/, "Start the tenant server, or correct its URL. The tenants are unchanged."],
  [
    /cannot be reached|refuses our role/,
    "Check the server, and its URL in the settings: tenantry doctor does both.",
  ],
  [/lock was not free/, "Find the session that holds the lock (pg_stat_activity), and retry."],
  [
    /asked for the lock of a migration/,
    "Let the other migration end, or end its process if that is frozen; then retry.",
  ],
  [
    /did not answer in time/,
    "Check the size of the tables, and the setting TENANTRY_TENANT_DEADLINE_S.",
  ],
  [/not among/, "A newer release, or other revisions, migrated these databases."],
  [/cannot be read/, "Correct that line: no revision is applied until the file can be imported."],
  [/The migration raised/, "Try that line of the revision on a copy of one database."],
];

/** Return what to check for a cause. */
export function remedyOf(cause) {
  return REMEDIES.find(([pattern]) => pattern.test(cause))?.[1] ?? SCHEMA;
}
