// The search of the manual: ranks sections by BM25 over their headings and texts, in this page.
// Source of the formula: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009).

const HITS_MAX = 20;
const SECTIONS_OF_A_PAGE_MAX = 3;
const EXCERPT_CHARS = 220;
const SATURATION = 1.2;
const LENGTH_SHARE = 0.6;
// How often a word counts that is in the title of the page, or in a heading.
const IN_TITLE = 8;
const IN_HEADING = 5;

const STOP = new Set(
  `a all an and any are as at be but by can cannot do does for from get happen happens has have how i if in into is it its
  me my need of on one or our should so some that the their them then there these they this to use want was we what when where
  which who why will with would you your`.split(/\s+/),
);
// Words of a question, and ours for the same.
const SAME = {
  customer: "tenant",
  customers: "tenant",
  db: "database",
  postgres: "postgresql",
  pg: "postgresql",
  rollback: "undo",
  revert: "undo",
  ai: "assistant",
  chatgpt: "mcp",
  claude: "mcp",
  article: "post",
  articles: "post",
  logged: "login",
  signin: "login",
  https: "tls",
  ssl: "tls",
  sdk: "client",
  fast: "benchmark",
  speed: "benchmark",
  performance: "benchmark",
};

/** Return the stems of the words of a text, in their order. */
function stems(text) {
  return (text.toLowerCase().match(/[a-z0-9]+/g) ?? []).map((word) => stem(SAME[word] ?? word));
}

/** Return a word without its usual endings. */
function stem(word) {
  if (word.length <= 3) return word;
  return word
    .replace(/ies$/, "y")
    .replace(/(ss|us|is)$|s$/, "$1")
    .replace(/(?<=...)(?:ing|ed)$/, "")
    .replace(/(?<=...)(?:ion|e|ly)$/, "");
}

/** Return the sections, each with how often it has which word. */
function read() {
  const titles = new Set();
  return MANUAL_INDEX.map(([link, page, heading, text, weight]) => {
    const counts = new Map();
    const add = (words, times) => {
      for (const word of words) counts.set(word, (counts.get(word) ?? 0) + times);
    };
    const words = stems(text);
    add(words, 1);
    add(stems(heading), IN_HEADING);
    // The title is in each section, but counts most where the page begins.
    add(stems(page), titles.has(page) ? 1 : IN_TITLE);
    titles.add(page);
    return { link, page, heading, text, weight, counts, length: words.length };
  });
}

const sections = read();
const usual = sections.reduce((sum, one) => sum + one.length, 0) / sections.length;
const holders = new Map();
for (const { counts } of sections) {
  for (const word of counts.keys()) holders.set(word, (holders.get(word) ?? 0) + 1);
}

/** Return the words of a text that say something. */
function telling(text) {
  const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return new Set(words.filter((word) => !STOP.has(word)).flatMap(stems));
}

/** Return the share of the words of a title that the question has. */
function named(title, words) {
  const all = [...telling(title)];
  return all.filter((word) => words.has(word)).length / Math.max(1, all.length);
}

/** Return how well a section answers, 0 if it has none of the words. */
function score(section, words) {
  let sum = 0;
  let found = 0;
  for (const word of words) {
    const count = section.counts.get(word) ?? 0;
    if (count === 0) continue;
    found += 1;
    const rarity = Math.log(1 + (sections.length - holders.get(word) + 0.5) / (holders.get(word) + 0.5));
    const length = 1 - LENGTH_SHARE + (LENGTH_SHARE * section.length) / usual;
    sum += (rarity * count * (SATURATION + 1)) / (count + SATURATION * length);
  }
  return sum * section.weight * (0.3 + (0.7 * found) / words.size) * (1 + named(section.page, words) / 2);
}

/** Return the pages that answer best, each with its best sections. */
function search(question) {
  const words = telling(question);
  const pages = new Map();
  const scored = sections.map((section) => [score(section, words), section]);
  for (const [points, section] of scored.filter(([points]) => points > 0).sort(([a], [b]) => b - a)) {
    const page = pages.get(section.page) ?? { page: section.page, points, sections: [] };
    if (page.sections.length < SECTIONS_OF_A_PAGE_MAX) page.sections.push(section);
    pages.set(section.page, page);
  }
  return { words, pages: [...pages.values()].slice(0, HITS_MAX) };
}

/** Return an element with children, which are elements or texts. */
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Return the text around the first words of the question, which are marked. */
function excerpt(text, words) {
  const pieces = text.split(/([A-Za-z0-9]+)/);
  const first = pieces.findIndex((piece) => /\w/.test(piece) && words.has(stems(piece)[0]));
  let begin = Math.max(0, first);
  for (let chars = 0; begin > 0 && chars < EXCERPT_CHARS / 3; begin--) chars += pieces[begin].length;
  const line = make("p", { class: "excerpt" }, begin > 0 ? "… " : "");
  let chars = 0;
  for (const piece of pieces.slice(begin)) {
    if ((chars += piece.length) > EXCERPT_CHARS) {
      line.append(" …");
      break;
    }
    const isWord = /\w/.test(piece) && words.has(stems(piece)[0]);
    line.append(isWord ? make("mark", {}, piece) : piece);
  }
  return line;
}

/** Return a hit: the link to the page, and to its best sections. */
function hit({ page, sections }, words) {
  const [best, ...others] = sections;
  const name = best.heading === page ? page : `${page}: ${best.heading}`;
  const item = make("li", {}, make("a", { href: best.link, class: "hit" }, name), excerpt(best.text, words));
  if (others.length > 0) {
    const links = others.map((one) => make("li", {}, make("a", { href: one.link }, one.heading)));
    item.append(make("ul", { class: "also" }, ...links));
  }
  return item;
}

const field = document.getElementById("search-field");

/** Show the hits of what is in the field. */
function show() {
  const question = field.value.trim();
  const { words, pages } = search(question);
  document.getElementById("search-hits").replaceChildren(...pages.map((page) => hit(page, words)));
  const count = pages.length === 0 ? "No page has these words." : `${pages.length} pages, the best first.`;
  document.getElementById("search-count").textContent = question === "" ? "" : count;
}

field.value = new URLSearchParams(location.search).get("q") ?? "";
field.addEventListener("input", () => {
  history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
  show();
});
document.getElementById("search-form").addEventListener("submit", (event) => event.preventDefault());
field.focus();
show();
