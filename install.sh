#!/usr/bin/env bash
# Installs kboot, shows it on this machine without changing it, or sets up and runs the tests. `./install.sh --help`.
set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
UNITS=(kboot.service kboot-engine.service kboot-scrub.service kboot-scrub.timer)
ENABLED=(kboot.service kboot-engine.service kboot-scrub.timer)

usage() {
    cat <<'TEXT'
Usage: ./install.sh --demo [--keep] [--dir DIR]
       ./install.sh --test
       sudo ./install.sh [--prefix DIR] [--root DIR] [--start] [--dry-run]
       sudo ./install.sh --uninstall [--purge] [--prefix DIR] [--root DIR]
                         [--dry-run]

Without --demo and --test it installs kboot for real. A second run changes
nothing that is already right.

  --demo         boot a small model end to end as an ordinary user, in a
                 private folder, and stop again
  --keep         with --demo: keep serving until Ctrl-C
  --dir DIR      with --demo: that folder (default: $XDG_DATA_HOME/kboot-demo,
                 else ~/.local/share/kboot-demo)
  --test         set up .venv in this checkout and run the whole test suite
  --prefix DIR   where the environment goes (default: /opt/kboot)
  --root DIR     install into the system below DIR, for image builds: nothing
                 is started, no state is made there
  --start        start kboot.service and kboot-engine.service when they are
                 installed
  --uninstall    remove what was installed; /etc/kboot and /var/lib/kboot stay
  --purge        with --uninstall: remove those too, the checkpoints with them
  --dry-run      print what would be done, change nothing

Exit status: 0 done, 2 usage, 1 anything else; with --demo that of
`kboot boot`, with --test that of the tests.
TEXT
}

say() { printf '==> %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}
misuse() {
    printf 'error: %s\n' "$1" >&2
    printf 'hint: ./install.sh --help\n' >&2
    exit 2
}

# ---------------------------------------------------------------------------------------------- Python environments

# Prints the versions to look for, best first. In an image only the image's own will do.
python_versions() {
    local version found=''
    for version in 3.13 3.12 3.11 3.14; do
        if [ -n "$ROOT" ] && [ -x "$ROOT/usr/bin/python$version" ]; then found="$found $version"; fi
    done
    echo "${found:-3.13 3.12 3.11 3.14}"
}

# Prints the interpreter to use: $KBOOT_PYTHON, else the newest that can make environments.
find_python() {
    local candidate names='' version without_venv=''
    for version in $(python_versions); do names="$names python$version"; done
    # A service cannot use an interpreter in somebody's home folder.
    if [ "$MODE" = install ]; then local PATH=/usr/bin:/usr/local/bin:/bin; fi
    for candidate in ${KBOOT_PYTHON:-$names python3}; do
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case " $(python_versions) " in *" $version "*) ;; *) continue ;; esac
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            command -v -- "$candidate"
            return
        fi
        without_venv=${without_venv:-$version}
    done
    if [ -n "$without_venv" ]; then
        die "Python $without_venv is here, but it cannot make environments (no module ensurepip)" \
            "install the package python$without_venv-venv: sudo apt-get install python$without_venv-venv"
    fi
    die "Python $(python_versions | sed 's/ / or /g') was not found here (seen: $(python3 --version 2>&1 || true))" \
        "Debian 12, Ubuntu 24.04 and newer: sudo apt-get install python3 python3-venv" \
        "or name an interpreter: KBOOT_PYTHON=/path/to/python3.12 ./install.sh …"
}

# Prints a digest of everything an installed kboot is made of.
source_digest() {
    (
        cd "$HERE"
        "$1" --version
        find agent profiles systemd pyproject.toml README.md -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z |
            xargs -0 sha256sum
    ) | sha256sum | cut -d' ' -f1
}

# make_env ENV: an environment with this checkout installed; nothing is done when the sources are those of last time.
# Sets ENV_CHANGED to yes or no.
make_env() {
    local env=$1 python digest
    python=$(find_python)
    digest=$(source_digest "$python")
    ENV_CHANGED=no
    if [ -x "$env/bin/kboot" ] && [ "$(cat "$env/.kboot-source" 2>/dev/null)" = "$digest" ]; then return; fi
    ENV_CHANGED=yes
    if [ -n "$ROOT" ] || [ ! -x "$env/bin/pip" ]; then
        run rm -rf "$env"
        run "$python" -m venv "$env"
    fi
    run rm -f "$env/.kboot-source"
    run "$env/bin/pip" install --quiet --no-input --disable-pip-version-check "$HERE"
    if [ "$DRY_RUN" = no ]; then printf '%s\n' "$digest" >"$env/.kboot-source"; fi
}

# ------------------------------------------------------------------------------------------------------------- demo

HUB='' FOREGROUND='' SIGNALLED=no

# Ends what this script started and waits until it has ended.
stop_all() {
    local pid
    for pid in $FOREGROUND $HUB; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    FOREGROUND='' HUB=''
}

# A signal goes to the command in the foreground, which stops in its own way; without one this script ends.
on_signal() {
    SIGNALLED=yes
    [ -n "$FOREGROUND" ] || exit 130
    kill -TERM "$FOREGROUND" 2>/dev/null || true
}

# Runs a command so that signals reach it at once; returns its status.
in_foreground() {
    local status=0
    "$@" &
    FOREGROUND=$!
    while :; do
        SIGNALLED=no status=0
        wait "$FOREGROUND" || status=$?
        # A signal ends `wait` before the command has ended.
        if [ "$SIGNALLED" = no ]; then break; fi
    done
    FOREGROUND=''
    return "$status"
}

# serve_port PYTHON FILE: prints the port of the last run where it is free, else a new one, which is kept in FILE.
# A plan names the port: with another one a second run would not find everything as the first left it.
serve_port() {
    "$1" - "$2" <<'PYTHON'
import pathlib, socket, sys

file = pathlib.Path(sys.argv[1])
kept = file.read_text().strip() if file.exists() else ""
for port in (int(kept) if kept.isdecimal() and int(kept) < 65536 else 0, 0):
    with socket.socket() as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind(("127.0.0.1", port))
        except OSError:
            continue
        port = asked.getsockname()[1]
        break
file.write_text(f"{port}\n")
print(port)
PYTHON
}

# start_hub ENV DIR: a Hub of its own on loopback, on a port of the kernel's choice.
start_hub() {
    local env=$1 dir=$2 tries=0
    rm -f "$dir/hub.json"
    "$env/bin/python" -m kboot.demo.hub --with-parent --data "$dir/hub-data" --port-file "$dir/hub.json" \
        >"$dir/hub.log" 2>&1 &
    HUB=$!
    until [ -s "$dir/hub.json" ]; do
        if ! kill -0 "$HUB" 2>/dev/null || [ "$tries" -ge 600 ]; then
            tail -n 5 "$dir/hub.log" >&2
            die "the demo Hub did not start" "$dir/hub.log has its log"
        fi
        tries=$((tries + 1))
        sleep 0.1
    done
    HF_ENDPOINT=$("$env/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["endpoint"])' "$dir/hub.json")
    export HF_ENDPOINT
    say "a Hub of its own answers at $HF_ENDPOINT (log: $dir/hub.log)"
}

# put_look DIR ENV: a kboot that looks at the demo, for whoever wants to look around.
put_look() {
    local name
    {
        printf '#!/usr/bin/env bash\n'
        for name in KBOOT_STATE_DIR KBOOT_RUNTIME_DIR KBOOT_CONFIG_DIR HF_ENDPOINT HF_HUB_DISABLE_TELEMETRY; do
            printf 'export %s=%q\n' "$name" "${!name}"
        done
        printf 'exec %q "$@"\n' "$2/bin/kboot"
    } >"$1/kboot"
    chmod 755 "$1/kboot"
}

demo() {
    local dir=${DEMO_DIR:-${XDG_DATA_HOME:-${HOME:?HOME is not set: use --dir}/.local/share}/kboot-demo}
    local env status=0 boot profile
    mkdir -p "$dir"
    dir=$(cd -- "$dir" && pwd -P)
    env=$dir/env
    trap stop_all EXIT
    trap on_signal INT TERM HUP

    say "preparing $env (about a minute the first time)"
    make_env "$env"
    [ "$ENV_CHANGED" = yes ] || say "kboot in it is up to date"

    start_hub "$env" "$dir"
    export HF_HUB_DISABLE_TELEMETRY=1
    export KBOOT_STATE_DIR=$dir/state KBOOT_RUNTIME_DIR=$dir/run KBOOT_CONFIG_DIR=$dir/config
    mkdir -p "$KBOOT_STATE_DIR" "$KBOOT_RUNTIME_DIR" "$KBOOT_CONFIG_DIR"

    put_look "$dir" "$env"
    say "kboot facts"
    in_foreground "$env/bin/kboot" facts || exit "$?"

    profile=(--profile demo --set "serve.port=$(serve_port "$env/bin/python" "$dir/port")")
    say "kboot plan ${profile[*]}"
    in_foreground "$env/bin/kboot" plan "${profile[@]}" || exit "$?"

    boot=(boot "${profile[@]}" --serve)
    [ "$KEEP" = yes ] || boot+=(--exit-when-ready)
    [ "$KEEP" = no ] || say "it serves until Ctrl-C; from another terminal: $dir/kboot status"
    say "kboot ${boot[*]}"
    in_foreground "$env/bin/kboot" "${boot[@]}" || status=$?

    say "kboot timeline"
    in_foreground "$env/bin/kboot" timeline || true
    stop_all
    say "everything is stopped; look around with: $dir/kboot timeline --list"
    say "remove the demo with: rm -rf $dir"
    exit "$status"
}

# ------------------------------------------------------------------------------------------------------------- tests

# What the tests use besides Python: command → Debian package.
TOOLS=(
    aria2c:aria2 chromium:chromium curl:curl gcc:gcc git:git ip:iproute2 make:make mkfs.btrfs:btrfs-progs nginx:nginx-light
    nsenter:util-linux numactl:numactl rsync:rsync shellcheck:shellcheck systemd-analyze:systemd
    systemd-nspawn:systemd-container
)

install_tools() {
    local tool package missing=() packages=() known=()
    for tool in "${TOOLS[@]}"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${tool%%:*}" >/dev/null && continue
        missing+=("${tool%%:*}")
        packages+=("${tool##*:}")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "installing ${packages[*]}"
        apt-get update -qq
        for package in "${packages[@]}"; do
            if apt-cache show "$package" >/dev/null 2>&1; then
                known+=("$package")
            else # Ubuntu has chromium as a snap only
                say "there is no package $package; tests that use it are skipped and say so"
            fi
        done
        [ "${#known[@]}" -gt 0 ] || return 0
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${known[@]}" >/dev/null
        case " ${missing[*]} " in *" nginx "*)
            # The tests start their own; the package's service would take port 80.
            [ ! -d /run/systemd/system ] || systemctl disable --quiet --now nginx.service
            ;;
        esac
        return 0
    fi
    say "not here: ${missing[*]}; tests that use them are skipped and say so"
    say "to run them as well: sudo apt-get install ${packages[*]}"
}

test_suite() {
    local env=$HERE/.venv python digest
    install_tools
    [ "$(id -u)" -eq 0 ] || say "not root: tests of real systemd services (marker systemd) are skipped"
    python=$(find_python)
    digest=$("$python" --version | cat - "$HERE/pyproject.toml" | sha256sum)
    if [ ! -x "$env/bin/pytest" ] || [ "$(cat "$env/.kboot-dev" 2>/dev/null)" != "$digest" ]; then
        say "preparing $env"
        [ -x "$env/bin/pip" ] || "$python" -m venv "$env"
        "$env/bin/pip" install --quiet --no-input --disable-pip-version-check --editable "${HERE}[dev]"
        printf '%s\n' "$digest" >"$env/.kboot-dev"
    fi
    exec make --no-print-directory -C "$HERE" check
}

# ------------------------------------------------------------------------------------------------------ installation

CHANGES=0

# Carries out one command of the installation, or prints it under --dry-run.
run() {
    if [ "$DRY_RUN" = yes ]; then
        printf '+ %s\n' "$*"
    else
        "$@"
    fi
}

changed() {
    CHANGES=$((CHANGES + 1))
    [ "$DRY_RUN" = yes ] || say "$*"
}

# make_folder DIR: nothing is said of one that --dry-run has already named, or named a folder in.
NAMED=()
make_folder() {
    local named
    [ ! -d "$1" ] || return 0
    for named in "${NAMED[@]}"; do
        case $named/ in "$1"/*) return 0 ;; esac
    done
    NAMED+=("$1")
    run mkdir -p "$1"
}

# put_file TARGET MODE: standard input becomes the content of ROOT/TARGET, unless it already is.
put_file() {
    local target=$ROOT$1 mode=$2 content
    content=$(cat; printf x)
    content=${content%x}
    if [ -f "$target" ] && printf '%s' "$content" | cmp -s - "$target"; then return; fi
    changed "writing $target"
    make_folder "$(dirname "$target")"
    if [ "$DRY_RUN" = yes ]; then
        printf '+ write %s (mode %s)\n' "$target" "$mode"
        return
    fi
    printf '%s' "$content" >"$target.new"
    chmod "$mode" "$target.new"
    mv -f "$target.new" "$target"
}

put_link() {
    local link=$ROOT$1 target=$2
    [ "$(readlink "$link" 2>/dev/null)" != "$target" ] || return 0
    changed "linking $link"
    make_folder "$(dirname "$link")"
    run ln -sfn "$target" "$link"
}

systemd_runs() { [ -z "$ROOT" ] && [ -d /run/systemd/system ]; }

put_environment() {
    local env=$ROOT$PREFIX/env file
    make_env "$env"
    [ "$ENV_CHANGED" = yes ] || return 0
    changed "installed $env"
    if [ -n "$ROOT" ] && [ "$DRY_RUN" = no ]; then
        # The paths inside must be those the image will see.
        for file in "$env"/bin/* "$env/pyvenv.cfg"; do
            [ -L "$file" ] || sed -i "s|$ROOT$PREFIX|$PREFIX|g" "$file"
        done
        "$env/bin/python" -m compileall -q -f -s "$ROOT" "$env/lib" >/dev/null || true
        point_at_image_python "$env"
    fi
}

# The environment's interpreter link must name one that exists in the image, of the same version.
point_at_image_python() {
    local env=$1 version
    version=$("$env/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ ! -x "$ROOT/usr/bin/python$version" ]; then
        say "there is no /usr/bin/python$version in $ROOT: kboot runs there only once that is installed"
    fi
    ln -sfn "/usr/bin/python$version" "$env/bin/python"
    ln -sfn python "$env/bin/python3"
    ln -sfn python "$env/bin/python$version"
    sed -i "s|^home = .*|home = /usr/bin|; s|^executable = .*|executable = /usr/bin/python$version|" "$env/pyvenv.cfg"
}

put_units() {
    local unit
    for unit in "${UNITS[@]}"; do
        put_file "/usr/lib/systemd/system/$unit" 644 < <(sed "s|/opt/kboot/|$PREFIX/|" "$HERE/systemd/$unit")
    done
    put_file /usr/lib/sysusers.d/kboot.conf 644 <"$HERE/systemd/kboot.sysusers"
    put_file /usr/lib/tmpfiles.d/kboot.conf 644 <"$HERE/systemd/kboot.tmpfiles"
}

put_config() {
    make_folder "$ROOT/etc/kboot/profiles"
    if [ -e "$ROOT/etc/kboot/kboot.toml" ]; then return; fi
    put_file /etc/kboot/kboot.toml 644 <<'TEXT'
# What this node does at boot. Never overwritten by install.sh.
schema = 1

# Profile to boot: a name from `kboot profile list`, or a file in /etc/kboot/profiles without its .toml.
profile = ""

# Where checkpoints, ledger and kernel caches are kept; empty = /var/lib/kboot.
state_dir = ""

# Where the hand-off record and the socket are; empty = /run/kboot.
runtime_dir = ""

# File with the Hub token, owner root, mode 0600; empty = none.
token_file = ""

# Port on 127.0.0.1 where the daemon answers /metrics, /livez and /readyz; 0 = none.
metrics_port = 0

# File for node_exporter's textfile collector (*.prom); empty = none.
metrics_file = ""

# Who announces the end of this machine: "aws", "aws-rebalance", "gcp", "azure", "file:/PATH", "command:WORDS".
reclaim = []

# true: prepare everything and start no engine until `kboot live` is said.
standby = false

# What you declare for terms that depend on it (`kboot license show`); nothing is sent anywhere.
# use: internal, product (inside a product) or sells-access (inference or fine-tuning is sold).
#[operator]
#use = "internal"
#group_revenue_usd_12_months = 0
#monthly_revenue_usd = 0
#monthly_users = 0
TEXT
}

# True as root, or under --dry-run, where the commands are only shown.
may_own() { [ "$(id -u)" -eq 0 ] || [ "$DRY_RUN" = yes ]; }

put_user_and_folders() {
    if ! may_own; then
        say "not root: user kboot and its folders are left to systemd-sysusers and systemd-tmpfiles in $ROOT"
        return
    fi
    if ! grep -qs '^kboot:' "$ROOT/etc/passwd"; then
        changed "creating user kboot"
        if command -v systemd-sysusers >/dev/null; then
            run systemd-sysusers ${ROOT:+--root="$ROOT"} kboot.conf
        else
            run useradd ${ROOT:+--root "$ROOT"} --system --user-group --home-dir /var/lib/kboot --no-create-home \
                --shell /usr/sbin/nologin kboot
        fi
    fi
    [ -z "$ROOT" ] || return 0 # folders are host state: the image's systemd-tmpfiles makes them at boot
    if [ -d /var/lib/kboot/cache ] && [ -d /run/kboot ]; then return; fi
    changed "creating /var/lib/kboot and /run/kboot"
    if command -v systemd-tmpfiles >/dev/null; then
        run systemd-tmpfiles --create kboot.conf
    else
        run install -d -o root -g kboot -m 2750 /run/kboot /var/lib/kboot
        run install -d -o root -g kboot -m 2770 /var/lib/kboot/cache
    fi
}

enable_units() {
    local unit
    if ! command -v systemctl >/dev/null; then
        say "no systemctl here: start \`kboot daemon\` and \`kboot exec\` by your own means"
        return
    fi
    for unit in "${ENABLED[@]}"; do
        if [ "$(systemctl ${ROOT:+--root="$ROOT"} is-enabled "$unit" 2>/dev/null)" = enabled ]; then continue; fi
        changed "enabling $unit"
        run systemctl ${ROOT:+--root="$ROOT"} enable --quiet "$unit"
    done
}

install_kboot() {
    local before
    [ -n "$ROOT" ] || may_own || die "installing needs root" "sudo ./install.sh, or ./install.sh --demo to try it first"
    put_environment
    put_link /usr/local/bin/kboot "$PREFIX/env/bin/kboot"
    put_config
    before=$CHANGES
    put_units
    put_user_and_folders
    if systemd_runs && [ "$CHANGES" -gt "$before" ]; then run systemctl daemon-reload; fi
    enable_units
    if [ "$START" = yes ]; then
        run systemctl start kboot.service kboot-engine.service
    fi
    if [ "$CHANGES" -eq 0 ]; then
        say "nothing to change: kboot is installed in $ROOT$PREFIX"
    elif [ "$DRY_RUN" = no ]; then
        say "kboot is installed in $ROOT$PREFIX"
        [ -n "$ROOT" ] || say "next: set profile in /etc/kboot/kboot.toml; kboot doctor; kboot plan;" \
            "systemctl start kboot kboot-engine"
    fi
}

remove() {
    local path
    for path in "$@"; do
        if [ -e "$ROOT$path" ] || [ -L "$ROOT$path" ]; then
            changed "removing $ROOT$path"
            run rm -rf -- "$ROOT$path"
        fi
    done
}

uninstall_kboot() {
    local unit
    [ -n "$ROOT" ] || may_own || die "uninstalling needs root" "sudo ./install.sh --uninstall"
    for unit in "${UNITS[@]}"; do
        [ -e "$ROOT/usr/lib/systemd/system/$unit" ] || continue
        if systemd_runs; then run systemctl stop "$unit"; fi
        if command -v systemctl >/dev/null; then
            run systemctl ${ROOT:+--root="$ROOT"} disable --quiet "$unit" 2>/dev/null || true
        fi
    done
    remove "${UNITS[@]/#//usr/lib/systemd/system/}" /usr/lib/sysusers.d/kboot.conf /usr/lib/tmpfiles.d/kboot.conf
    if [ "$(readlink "$ROOT/usr/local/bin/kboot" 2>/dev/null)" = "$PREFIX/env/bin/kboot" ]; then
        remove /usr/local/bin/kboot
    fi
    remove "$PREFIX/env"
    [ ! -d "$ROOT$PREFIX" ] || run rmdir --ignore-fail-on-non-empty "$ROOT$PREFIX"
    if systemd_runs; then run systemctl daemon-reload; fi
    if [ "$PURGE" = yes ]; then
        remove /etc/kboot /var/lib/kboot /run/kboot
        if may_own && grep -qs '^kboot:' "$ROOT/etc/passwd"; then
            changed "removing user kboot"
            run userdel ${ROOT:+--root "$ROOT"} kboot
        fi
    fi
    if [ "$CHANGES" -eq 0 ]; then
        say "nothing to remove: kboot is not installed in $ROOT$PREFIX"
    elif [ "$PURGE" = no ]; then
        say "kept: /etc/kboot and /var/lib/kboot (--purge removes them)"
    fi
}

# ------------------------------------------------------------------------------------------------------ command line

MODE=install KEEP=no DEMO_DIR='' PREFIX=/opt/kboot ROOT='' START=no PURGE=no DRY_RUN=no

# choose MODE: only one of --demo, --test and --uninstall.
choose() {
    [ "$MODE" = install ] || misuse "--$MODE and --$1 do not go together"
    MODE=$1
}

while [ "$#" -gt 0 ]; do
    case $1 in
    --demo | --test | --uninstall) choose "${1#--}" ;;
    --keep) KEEP=yes ;;
    --start) START=yes ;;
    --purge) PURGE=yes ;;
    --dry-run) DRY_RUN=yes ;;
    --dir | --prefix | --root)
        if [ "$#" -lt 2 ] || [ -z "$2" ]; then misuse "$1 needs a folder"; fi
        case $1 in
        --dir) DEMO_DIR=$2 ;;
        --prefix) PREFIX=${2%/} ;;
        --root) ROOT=${2%/} ;;
        esac
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) misuse "unknown argument: $1" ;;
    esac
    shift
done
[ "$KEEP" = no ] || [ "$MODE" = demo ] || misuse "--keep goes with --demo"
[ -z "$DEMO_DIR" ] || [ "$MODE" = demo ] || misuse "--dir goes with --demo"
[ "$PURGE" = no ] || [ "$MODE" = uninstall ] || misuse "--purge goes with --uninstall"
[ "$DRY_RUN" = no ] || [ "$MODE" = install ] || [ "$MODE" = uninstall ] || misuse "--dry-run does not go with --$MODE"
case $PREFIX in /*) ;; *) misuse "--prefix must be an absolute path, not $PREFIX" ;; esac
if [ -n "$ROOT" ]; then
    [ -d "$ROOT" ] || misuse "--root: there is no folder $ROOT"
    ROOT=$(cd -- "$ROOT" && pwd -P)
    if [ "$ROOT" = / ]; then ROOT=''; fi
fi

[ "$START" = no ] || [ "$MODE" = install ] || misuse "--start does not go with --$MODE"
[ "$START" = no ] || [ -z "$ROOT" ] || misuse "--start and --root do not go together"

case $MODE in
demo) demo ;;
test) test_suite ;;
install) install_kboot ;;
uninstall) uninstall_kboot ;;
esac
