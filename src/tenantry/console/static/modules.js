// The modules of a tenant and the scopes of an McpToken, by their keys.

export const MODULES = [
  ["blog", "Blog: posts, and their endpoints and tools"],
  ["mcp", "MCP: McpTokens and the MCP server"],
];

export const SCOPES = [
  ["content:read", "Read posts"],
  ["content:draft", "Write drafts, and read them"],
  ["content:publish", "Publish, and change what readers see"],
  ["profile:read", "Read the user's profile"],
  ["profile:write", "Change the user's profile"],
  ["modules:read", "List the modules"],
];
