// Failures grouped by cause. The service returns the causes; this module assigns the failures.

const PLACEHOLDER = "…"; // replaces names and numbers in a cause

/**
 * Return `{cause, count, details}` for each cause, the most frequent first.
 *
 * @param {{cause: string, count: number}[]} causes
 * @param {Object<string, any>[]} failures Details of the run.
 */
export function byCause(causes, failures) {
  const groups = causes.map((one) => ({ ...one, details: /** @type {any[]} */ ([]) }));
  // If a text matches two causes, it belongs to the one with more literal text.
  const forms = groups
    .map((group) => ({ group, pattern: patternOf(group.cause) }))
    .sort((one, other) => literalLength(other.group.cause) - literalLength(one.group.cause));
  for (const failure of failures) {
    const form = forms.find(({ pattern }) => pattern.test(failure.errorMessage ?? ""));
    form?.group.details.push(failure);
  }
  return groups;
}

function patternOf(cause) {
  const literals = cause
    .split(PLACEHOLDER)
    .map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${literals.join(".*")}$`, "s");
}

function literalLength(cause) {
  return cause.replaceAll(PLACEHOLDER, "").length;
}
