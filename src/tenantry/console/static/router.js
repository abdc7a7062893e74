// The view of an address. Addresses are fragments (`#/runs/…`), which are never sent.

const HOME = "#/fleet";
// Every parameter is an id. Anything else could make a request to another endpoint.
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const MISSING_PART =
  "A part of the console could not be loaded: the service cannot be reached, or it was replaced " +
  "by another release. Reload the page.";
/** @type {Route} */
const MISSING = ["", () => import("./missing.js"), ""];

/**
 * Return the view of a fragment: `{load, params, query, section}`.
 *
 * @param {string} fragment `location.hash`
 * @param {Route[]} routes A path with segments such as `:name`, the
 *   function that loads its view, and its navigation entry. The first route is the default; an
 *   unknown path is a page that says so.
 */
export function resolve(fragment, routes) {
  const [path, search = ""] = fragment.replace(/^#/, "").split("?");
  const segments = path.split("/").map(decoded);
  for (const [pattern, load, section] of routes) {
    const params = match(pattern.split("/"), segments);
    if (params !== null) {
      return { load, params, query: new URLSearchParams(search), section };
    }
  }
  const isHome = path === "" || path === "/";
  const [, load, section] = isHome ? routes[0] : MISSING;
  return { load, params: {}, query: new URLSearchParams(search), section };
}

/** Store the state of a view in its address, without an entry in the browser's history. */
export function keepQuery(query) {
  const path = location.hash.split("?")[0] || HOME;
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const search = new URLSearchParams(given).toString();
  history.replaceState(history.state, "", search === "" ? path : `${path}?${search}`);
}

/** Go to another view. */
export function go(path) {
  location.hash = path;
}

function match(pattern, segments) {
  if (pattern.length !== segments.length) {
    return null;
  }
  const params = {};
  for (const [index, segment] of pattern.entries()) {
    if (segment.startsWith(":")) {
      if (!ID.test(segments[index])) {
        return null;
      }
      params[segment.slice(1)] = segments[index];
    } else if (segment !== segments[index]) {
      return null;
    }
  }
  return params;
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A module could not be loaded. Browsers do not load it again until the page is reloaded. */
export class PartMissing extends Error {
  constructor(cause) {
    super(MISSING_PART, { cause });
  }
}

/** Return the module that `load` imports, or throw `PartMissing`. */
export function part(load) {
  return load().catch((error) => Promise.reject(new PartMissing(error)));
}
