#!/bin/sh
# Install Tenantry's units for systemd, its settings, and the command for root. Run it again to
# change the numbers, or for the units of another release. Your settings are kept; changes of units
# belong into drop-ins (`systemctl edit tenantry`), which are kept, too.
usage() {
  cat <<'TEXT'
Usage: install.sh [--processes N] [--workers N] [--backups] [--start] [--dry-run] [--root DIR]

  --processes N  Serving processes, about one for each core; more than one need PostgreSQL.
                 Without this option, the number stays (at first 1).
  --workers N    Workers to start with --start (default 0; they need PostgreSQL).
  --backups      With --start: a backup every night.
  --start        Enable and start the units. First write the settings: /etc/tenantry/tenantry.env.
  --dry-run      Print what would be done, and do nothing.
  --root DIR     Install the files below DIR, without a user, and start nothing.
TEXT
}
set -eu
cd "$(dirname "$0")"

fail() {
  echo "install.sh: $*" >&2
  exit 2
}

# number VALUE LEAST: at most 64
number() {
  case $1 in
  '' | *[!0-9]* | ???*) fail "$1 is not a number from $2 to 64." ;;
  esac
  if [ "$1" -lt "$2" ] || [ "$1" -gt 64 ]; then fail "$1 is not a number from $2 to 64."; fi
}

processes='' workers=0 backups='' start='' dry='' root=''
while [ $# -gt 0 ]; do
  case $1 in
  --processes | --workers | --root)
    [ $# -ge 2 ] || fail "$1 needs a value."
    case $1 in
    --processes)
      number "$2" 1
      processes=$2
      ;;
    --workers)
      number "$2" 0
      workers=$2
      ;;
    --root)
      [ -d "$2" ] || fail "$2 is not a folder."
      root=${2%/}
      ;;
    esac
    shift
    ;;
  --backups) backups=1 ;;
  --start) start=1 ;;
  --dry-run) dry=1 ;;
  --help | -h)
    usage
    exit
    ;;
  *) fail "$1 is not an option; --help lists them." ;;
  esac
  shift
done
[ -n "$root$dry" ] || [ "$(id -u)" = 0 ] || fail "It needs root, or --dry-run."
[ -z "$root" ] || [ -z "$start" ] || fail "--start and --root exclude each other."

if [ -e "$root/usr/local/bin/tenantry" ] && ! grep -q "install.sh" "$root/usr/local/bin/tenantry"; then
  fail "/usr/local/bin/tenantry is not of this script: remove it, if it is not needed."
fi

run() {
  echo "run      $*"
  [ -n "$dry" ] || "$@"
}

# place MODE PATH: the file gets what is on standard input.
place() {
  new=$(mktemp)
  cat >"$new"
  if cmp -s "$new" "$root$2" && [ "$(stat -c %a "$root$2")" = "${1#0}" ]; then
    echo "kept     $2"
  else
    echo "write    $2"
    [ -n "$dry" ] || install -D -m "$1" "$new" "$root$2"
  fi
  rm -f "$new"
}

if [ -z "$root" ] && ! id tenantry >/dev/null 2>&1; then
  run useradd --system --home-dir /var/lib/tenantry --shell /usr/sbin/nologin tenantry
fi

settings=/etc/tenantry/tenantry.env
if [ -e "$root$settings" ]; then
  echo "kept     $settings"
else
  place 0600 "$settings" <../../.env.example
  [ -n "$root" ] || run chown tenantry:tenantry "$settings"
fi

for unit in tenantry.service tenantry-worker@.service tenantry-backup.service tenantry-backup.timer; do
  place 0644 "/etc/systemd/system/$unit" <"$unit"
done

cores=/etc/systemd/system/tenantry.service.d/processes.conf
if [ -z "$processes" ]; then
  :
elif [ "$processes" -gt 1 ]; then
  place 0644 "$cores" <<TEXT
# Written by install.sh --processes $processes.
[Service]
ExecStart=
ExecStart=/opt/tenantry/bin/python -P -m tenantry serve --workers $processes
ExecReload=/bin/kill -HUP \$MAINPID
MemoryHigh=$((processes * 512))M
MemoryMax=$((processes * 768))M
TasksMax=$((processes * 512))
TEXT
elif [ -e "$root$cores" ]; then
  run rm "$root$cores"
fi

# Commands need the settings and the user of the service: this command has both.
place 0755 /usr/local/bin/tenantry <<'TEXT'
#!/bin/sh
# Written by Tenantry's install.sh.
cd /var/lib/tenantry && exec runuser -u tenantry -- \
  env TENANTRY_DATA_DIR=/var/lib/tenantry /opt/tenantry/bin/tenantry "$@"
TEXT
if [ ! -L "$root/var/lib/tenantry/.env" ]; then
  owner=''
  [ -n "$root" ] || owner='-o tenantry -g tenantry'
  # shellcheck disable=SC2086 # two words each, or none
  run install -d -m 0700 $owner "$root/var/lib/tenantry"
  run ln -s "$settings" "$root/var/lib/tenantry/.env"
fi

[ -z "$root" ] || exit 0
run systemctl daemon-reload
if [ -z "$start" ]; then
  echo "Next: write $settings, install the release in /opt/tenantry, and repeat this with --start."
  exit
fi
set -- tenantry
worker=1
while [ "$worker" -le "$workers" ]; do
  set -- "$@" "tenantry-worker@$worker"
  worker=$((worker + 1))
done
[ -z "$backups" ] || set -- "$@" tenantry-backup.timer
run systemctl enable --now "$@"
