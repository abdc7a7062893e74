// The OpenAPI description: operations by level of access, and the members of schemas.

const DEPTH_MAX = 4;

/**
 * Return the operations by their tags, which are the levels of access, in the order of the
 * description.
 *
 * @returns {Map<string, {method: string, path: string, operation: Object}[]>}
 */
export function byLevel(description) {
  const levels = new Map();
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [level] = operation.tags;
      const others = levels.get(level) ?? [];
      levels.set(level, [...others, { method: method.toUpperCase(), path, operation }]);
    }
  }
  return levels;
}

/** Return the names of an operation's security schemes. */
export function schemesOf(operation) {
  return new Set(operation.security.flatMap((one) => Object.keys(one)));
}

/**
 * Return every member of a schema, including nested schemas, as a row of a table.
 *
 * @returns {{name: string, type: string, isRequired: boolean, meaning: string}[]} `name` is the
 *   path of the member: `owner.email`, `items[].id`.
 */
export function membersOf(schema, description, prefix = "", depth = 0) {
  const known = resolved(schema, description);
  if (depth === DEPTH_MAX) {
    return [];
  }
  if (known.type === "array") {
    return membersOf(known.items ?? {}, description, `${prefix}[]`, depth);
  }
  const choices = (known.anyOf ?? known.oneOf ?? []).filter((one) => one.type !== "null");
  if (choices.length > 0) {
    return choices.flatMap((one) => membersOf(one, description, prefix, depth));
  }
  return Object.entries(known.properties ?? {}).flatMap(([member, inner]) => {
    const name = prefix === "" ? member : `${prefix}.${member}`;
    const isRequired = (known.required ?? []).includes(member);
    const meaning = inner.description ?? "";
    const row = { name, type: typeOf(inner, description), isRequired, meaning };
    return [row, ...membersOf(inner, description, name, depth + 1)];
  });
}

/** Return the description of a schema, or of that to which it refers; empty if there is none. */
export function meaningOf(schema, description) {
  return schema.description ?? resolved(schema, description).description ?? "";
}

/** Return a description of a schema's type: "string (uuid), or null". */
export function typeOf(schema, description) {
  const known = resolved(schema, description);
  const choices = known.anyOf ?? known.oneOf;
  if (choices) {
    return choices.map((one) => typeOf(one, description)).join(", or ");
  }
  if (known.type === "array") {
    return `array of ${typeOf(known.items ?? {}, description)}`;
  }
  if (known.const !== undefined || known.enum) {
    return (known.enum ?? [known.const]).map((one) => JSON.stringify(one)).join(", or ");
  }
  return [known.type ?? "anything", ...boundsOf(known)].join(" ");
}

function boundsOf({ format, minimum, maximum, minLength, maxLength, default: standard }) {
  const bounds = [
    format,
    minimum !== undefined && `≥ ${minimum}`,
    maximum !== undefined && `≤ ${maximum}`,
    minLength !== undefined && `at least ${minLength} characters`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    standard !== undefined && standard !== null && `default ${JSON.stringify(standard)}`,
  ].filter(Boolean);
  return bounds.length > 0 ? [`(${bounds.join(", ")})`] : [];
}

function resolved(schema, description) {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : description.components.schemas[name];
}
