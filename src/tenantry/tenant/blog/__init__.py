"""The blog of a tenant: posts, drafts and their publication."""
