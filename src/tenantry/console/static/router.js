// The view of an address. Addresses are fragments (`#/runs/…`), which are never sent.

/**
 * Return the view of a fragment: `{load, params, query, section}`.
 *
 * @param {string} fragment `location.hash`
 * @param {Route[]} routes A path with segments such as `:name`, the
 *   function that loads its view, and its navigation entry. The first route is the default.
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
  const [, load, section] = routes[0];
  return { load, params: {}, query: new URLSearchParams(), section };
}

/** Store the state of a view in its address, without an entry in the browser's history. */
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

function match(pattern, segments) {
  if (pattern.length !== segments.length) {
    return null;
  }
  const params = {};
  for (const [index, segment] of pattern.entries()) {
    if (segment.startsWith(":")) {
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
