// When a tenant was last active, the size of its database, and its newest posts.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { failure, section, skeleton, time } from "./widgets.js";

const POSTS = [
  { title: "Title", kind: "name", cell: (one) => one.title },
  {
    title: "State",
    cell: (one) =>
      one.publishedAt === null ? badge("pending", "draft") : badge("head", "published"),
  },
  { title: "Author", kind: "minor name", cell: (one) => one.authorName },
  { title: "Created", kind: "minor", cell: (one) => time(one.createdAt) },
];

/** Read the overview of the tenant at `path`; return the elements that show it when it is there. */
export function overview(path, signal) {
  const lastUsed = el("span", {}, "…");
  const size = el("span", {}, "…");
  const posts = el("div", { class: "stack" }, skeleton(2));
  const load = async () => {
    try {
      const found = await get(`${path}/overview`, { signal });
      const { contents } = found;
      fill(lastUsed, time(found.lastUsedAt));
      fill(size, contents === null ? "unknown" : bytes(contents.sizeBytes));
      fill(posts, contents === null ? unreadable() : listOf(contents));
    } catch (error) {
      if (!signal.aborted) {
        fill(posts, failure(error, load));
      }
    }
  };
  load();
  return { lastUsed, size, posts: section("Posts", {}, posts) };
}

function unreadable() {
  return el("p", { class: "empty" }, "The database of the tenant cannot be read.");
}

function listOf({ posts, postCount, publishedCount }) {
  const hidden = postCount - posts.length;
  const drafts = plural(postCount - publishedCount, "draft");
  return [
    postCount > 0 && el("p", { class: "hint" }, `${count(publishedCount)} published, ${drafts}.`),
    table("Posts", POSTS, posts, "The tenant has no posts."),
    hidden > 0 && el("p", { class: "hint" }, `And ${plural(hidden, "older post")}.`),
  ];
}
