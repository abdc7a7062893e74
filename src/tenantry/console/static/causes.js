// Failures by cause. The service names the causes; which failure has which is found here.

const PLACEHOLDER = "…"; // stands for the names and numbers that a cause leaves out

/**
 * Return `{cause, count, details}` for each cause, the commonest first.
 *
 * @param {{cause: string, count: number}[]} causes
 * @param {{errorMessage: string}[]} failures
 */
export function byCause(causes, failures) {
  const groups = causes.map(({ cause, count }) => ({ cause, count, details: [] }));
  // A text can have the form of two causes: the one that says more is its own.
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
