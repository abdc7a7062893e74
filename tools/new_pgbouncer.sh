#!/usr/bin/env bash
# new_pgbouncer.sh FOLDER: put a PgBouncer of at least 1.21 into FOLDER, and print its path.
#
# The one of this machine is used if it is new enough. Otherwise, on Debian, the packages of
# SUITE are unpacked into FOLDER, together with the libraries that they need, and nothing is
# installed. The program runs with those libraries.
set -euo pipefail

readonly MAJOR=1 MINOR=21 SUITE=trixie
readonly PACKAGES="pgbouncer libc6 libcares2 libevent-2.1-7t64 libldap2 libpam0g libssl3t64
  libsystemd0 libsasl2-2 libaudit1 libcap-ng0 libcap2 liblzma5 libzstd1 zlib1g libgcc-s1"
PATH="$PATH:/usr/sbin"
folder=$(mkdir -p "$1" && cd "$1" && pwd)

is_new() {
  local version
  version=$("$1" --version | sed -n 's/^PgBouncer //p')
  [[ $version =~ ^([0-9]+)\.([0-9]+) ]] || return 1
  ((BASH_REMATCH[1] > MAJOR || (BASH_REMATCH[1] == MAJOR && BASH_REMATCH[2] >= MINOR)))
}

if installed=$(command -v pgbouncer) && is_new "$installed"; then
  echo "$installed"
  exit
fi
if [[ -x $folder/pgbouncer ]]; then
  echo "$folder/pgbouncer"
  exit
fi

codename=$(. /etc/os-release && [[ ${ID:-} == debian ]] && echo "$VERSION_CODENAME") || {
  echo "Needs PgBouncer $MAJOR.$MINOR or newer, or Debian with apt-get." >&2
  exit 1
}
mkdir -p "$folder"/{lists/partial,cache/archives/partial,packages,root}
touch "$folder/status"
sed "s/$codename/$SUITE/g" /etc/apt/sources.list.d/debian.sources >"$folder/suite.sources"
cat >"$folder/apt.conf" <<END
Dir::State::lists "$folder/lists";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "$folder/suite.sources";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "root";
END
export APT_CONFIG="$folder/apt.conf"
apt-get update -qq
(cd "$folder/packages" && apt-get download -qq $PACKAGES)
for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
libraries=$(dirname "$(find "$folder/root/usr/lib" -name 'libc.so.6' | head -n 1)")
loader=$(find "$folder/root/usr/lib" -name 'ld-linux*' | head -n 1)
rm -rf "$folder"/{lists,cache,packages}
printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
  "$loader" "$libraries" "$folder/root/usr/sbin/pgbouncer" >"$folder/pgbouncer.new"
chmod +x "$folder/pgbouncer.new"
mv "$folder/pgbouncer.new" "$folder/pgbouncer"
is_new "$folder/pgbouncer"
echo "$folder/pgbouncer"
