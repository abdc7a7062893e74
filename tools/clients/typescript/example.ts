// Read, write and manage with the TypeScript client: URL KEY EMAIL PASSWORD ADMIN ADMIN_PASSWORD.
import createClient from "tenantry-client";

const [baseUrl, key, email, password, adminEmail, adminPassword] = process.argv.slice(2) as [
  string, string, string, string, string, string,
];

/** Return the data of an answer; otherwise end with its message. */
function succeeded<T>(answer: { data?: { data: T }; error?: { message: string } }): T {
  if (answer.data === undefined) throw new Error(answer.error?.message ?? "No answer.");
  return answer.data.data;
}

// A website: the API key of the tenant is enough to read.
const website = createClient({ baseUrl, headers: { "X-Api-Key": key } });
const posts = succeeded(await website.GET("/api/public/blog/posts", { params: { query: { pageSize: 3 } } }));
for (const post of posts.items) console.log("post:", post.title);

// A user of the tenant: the API key names the tenant, and the token of the login the user.
const login = succeeded(await website.POST("/api/tenant/auth/login", { body: { email, password } }));
const user = createClient({ baseUrl, headers: { "X-Api-Key": key, Authorization: `Bearer ${login.token}` } });
const created = succeeded(
  await user.POST("/api/tenant/blog/posts", {
    body: { title: "Written in TypeScript", content: "By the generated client." },
  }),
);
console.log("created:", created.title);

// An admin of the service.
const loginAdmin = succeeded(
  await createClient({ baseUrl }).POST("/api/admin/auth/login", {
    body: { email: adminEmail, password: adminPassword },
  }),
);
const admin = createClient({ baseUrl, headers: { Authorization: `Bearer ${loginAdmin.token}` } });
const tenants = succeeded(await admin.GET("/api/admin/tenants", { params: { query: { pageSize: 100 } } }));
console.log("tenants:", tenants.totalCount);
