#!/bin/sh
# What a new release does once before it serves, with containers: upgrade the catalog, create the
# first admin, and migrate every tenant. The exit status is that of `tenantry migrate all`.
#   ADMIN_EMAIL          the admin that starts the run
#   ADMIN_PASSWORD_FILE  the password of that admin, only read when the admin is created
set -eu
: "${ADMIN_EMAIL:?the e-mail address of an admin}"
password=${ADMIN_PASSWORD_FILE:-/run/secrets/admin_password}

# Without a catalog there is no list, and the next command creates both.
lower() { tr '[:upper:]' '[:lower:]'; }
admins=$(tenantry admin list --json 2>/dev/null | lower)
case $admins in
*"\"$(echo "$ADMIN_EMAIL" | lower)\""*) ;;
*) tenantry admin create "$ADMIN_EMAIL" --password-stdin <"$password" ;;
esac

if [ -n "${TENANTRY_REQUIRE_PLAN-}" ]; then
  echo "The tenants are not migrated: TENANTRY_REQUIRE_PLAN is set, so run a plan." >&2
  exit 0
fi
exec tenantry migrate all --only-behind --by "$ADMIN_EMAIL"
