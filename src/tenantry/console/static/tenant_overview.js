// When a tenant was last active, the size of its database, and its newest posts.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { hint, loadInto, others, section, skeleton, time, unreadable } from "./widgets.js";

const POSTS = [
  { title: "Title", kind: "name", by: "title", cell: (one) => one.title },
  {
    title: "State",
    by: "publishedAt",
    cell: (one) =>
      one.publishedAt === null ? badge("pending", "draft") : badge("head", "published"),
  },
  { title: "Author", kind: "minor name", by: "authorName", cell: (one) => one.authorName },
  { title: "Created", kind: "minor", by: "createdAt", cell: (one) => time(one.createdAt) },
];

/** Read the overview of the tenant at `path`; return the elements that show it when it is there. */
export function overview(path, signal) {
  const lastUsed = el("span", {}, "…");
  const size = el("span", {}, "…");
  /** @type {number|null} */
  let sizeBytes = null;
  const posts = el("div", { class: "stack" }, skeleton(2));
  loadInto(posts, signal, async () => {
    const { lastUsedAt, contents } = await get(`${path}/overview`, { signal });
    fill(lastUsed, time(lastUsedAt));
    sizeBytes = contents?.sizeBytes ?? null;
    fill(size, contents === null ? "unknown" : sizeAndLimit(contents));
    fill(posts, contents === null ? unreadable() : listOf(contents));
  });
  return { lastUsed, size, sizeOf: () => sizeBytes, posts: section("Posts", {}, posts) };
}

function sizeAndLimit({ sizeBytes, sizeBytesMax }) {
  const size = bytes(sizeBytes);
  if (!sizeBytesMax) {
    return size;
  }
  const isFull = sizeBytes >= sizeBytesMax;
  return [`${size} of ${bytes(sizeBytesMax)} `, isFull && badge("failed", "full")];
}

function listOf({ posts, postCount, publishedCount }) {
  const drafts = plural(postCount - publishedCount, "draft");
  return [
    postCount > 0 && hint(`${count(publishedCount)} published, ${drafts}.`),
    table("Posts", POSTS, posts, "The tenant has no posts."),
    others(postCount - posts.length, "older post"),
  ];
}
