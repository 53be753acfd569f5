# Set-up shared by tools/demo and tools/test: source it, then call `set_up EXTRA`. Bash only.
# Makes .venv in the checkout, installs avatar3d with the extra, and fetches the models; a second call is quick.

set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
python="$root/.venv/bin/python"

say() { printf '[%5.1f s] %s\n' "$(awk -v a="$(date +%s.%N)" -v b="$started" 'BEGIN { print a - b }')" "$*"; }
started="$(date +%s.%N)"

# Debian packages that are missing; installs them only as root, otherwise says what to run.
need_packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        say "not installed: ${missing[*]} (as root: apt-get install ${missing[*]})"
        return 1
    fi
    say "installing ${missing[*]} with apt"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
}

set_up() {
    local extra="$1" stamp wanted
    if ! command -v python3 >/dev/null || ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "Python 3.11 or newer is needed as python3" >&2
        exit 1
    fi
    python3 -c 'import ensurepip' 2>/dev/null || need_packages python3-venv
    # EGL and Mesa's software renderer: nothing else is needed to draw without a display.
    if ! ldconfig -p 2>/dev/null | grep -q 'libEGL\.so\.1'; then need_packages libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri || true; fi
    [ -x "$python" ] || { say "making .venv"; python3 -m venv .venv; }
    stamp=".venv/.avatar3d-$extra"
    wanted="$(cat pyproject.toml tools/constraints.txt | sha256sum)"
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        say "installing avatar3d[$extra] into .venv (a few minutes the first time)"
        "$python" -m pip install -q --disable-pip-version-check -c tools/constraints.txt -e ".[$extra]"
        printf '%s' "$wanted" >"$stamp"
    fi
    say "fetching the face models (checked by SHA-256)"
    .venv/bin/avatar3d models pull --quiet
}
