#!/bin/sh
# Create the secrets of compose.yaml, once: secrets.sh [FOLDER]. What exists is left as it is.
#
# Only the owner can open the folder. The files in it can be read by all users, because the
# programs in the containers run as other users, each of which sees only its own files.
set -eu
folder=${1:-$(dirname "$0")/secrets}
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

create() { # NAME: the file gets what is on standard input
  if [ -e "$1" ]; then
    cat >/dev/null
    echo "kept     $1"
  else
    cat >"$1.new"
    chmod 444 "$1.new"
    mv "$1.new" "$1"
    echo "created  $1"
  fi
}

for name in postgres_password database_password admin_password grafana_password; do
  openssl rand -hex 24 | create "$name"
done
password=$(cat database_password)
create tenantry.env <<ENV
TENANTRY_CATALOG_URL=postgresql://tenantry:$password@postgres/tenantry_catalog
TENANTRY_TENANT_SERVER_URL=postgresql://tenantry:$password@postgres/postgres
TENANTRY_SECRET_KEY=$(openssl rand -hex 32)
ENV
echo "Store a copy of TENANTRY_SECRET_KEY elsewhere: a backup is useless without it."
