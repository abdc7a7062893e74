// What can be on or off for a tenant, and what an McpToken can be allowed: by their keys.

export const MODULES = [
  ["blog", "Blog: posts, and their endpoints and tools"],
  ["mcp", "MCP: McpTokens and the MCP server"],
];

export const SCOPES = [
  ["content:read", "Read posts"],
  ["content:write", "Write posts, and see drafts"],
  ["profile:read", "Read the user's profile"],
  ["profile:write", "Change the user's profile"],
  ["modules:read", "List the modules"],
];
