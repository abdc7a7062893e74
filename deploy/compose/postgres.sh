#!/bin/sh
# Make the role and the catalog, once, when the PostgreSQL of compose.yaml has no data yet.
set -eu
password=$(cat "${DATABASE_PASSWORD_FILE:-/run/secrets/database_password}")
psql --set ON_ERROR_STOP=1 --set password="$password" --username "$POSTGRES_USER" <<'SQL'
CREATE ROLE tenantry LOGIN CREATEDB PASSWORD :'password';
CREATE DATABASE tenantry_catalog OWNER tenantry TEMPLATE template0 ENCODING 'UTF8';
REVOKE CONNECT, TEMPORARY ON DATABASE tenantry_catalog FROM PUBLIC;
SQL
