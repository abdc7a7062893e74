// Which view belongs to an address. Addresses are fragments (`#/runs/…`): they are sent to nobody.

/**
 * Return what the fragment asks for: `{load, params, query, section}`.
 *
 * @param {string} fragment `location.hash`
 * @param {[string, function, string][]} routes A path, whose segments may be `:name`; what
 *   loads its view; the part of the navigation that it belongs to. The first one is for all that
 *   is unknown.
 */
export function resolve(fragment, routes) {
  const [path, search = ""] = fragment.replace(/^#/, "").split("?");
  const asked = path.split("/").map(decoded);
  for (const [pattern, load, section] of routes) {
    const params = match(pattern.split("/"), asked);
    if (params !== null) {
      return { load, params, query: new URLSearchParams(search), section };
    }
  }
  const [, load, section] = routes[0];
  return { load, params: {}, query: new URLSearchParams(), section };
}

/** Keep the state of a view in its address, without a step in the history of the browser. */
export function keepQuery(query) {
  const path = location.hash.split("?")[0];
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const search = new URLSearchParams(given).toString();
  history.replaceState(null, "", search === "" ? path : `${path}?${search}`);
}

/** Go to another view. */
export function go(path) {
  location.hash = path;
}

function match(pattern, asked) {
  if (pattern.length !== asked.length) {
    return null;
  }
  const params = {};
  for (const [index, segment] of pattern.entries()) {
    if (segment.startsWith(":")) {
      params[segment.slice(1)] = asked[index];
    } else if (segment !== asked[index]) {
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
