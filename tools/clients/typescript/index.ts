import createFetchClient, { type Client, type ClientOptions } from "openapi-fetch";

import type { paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";
export type TenantryClient = Client<paths>;

/** Return a client whose paths, parameters, bodies and answers have the types of the service. */
export default function createClient(options: ClientOptions): TenantryClient {
  return createFetchClient<paths>(options);
}
