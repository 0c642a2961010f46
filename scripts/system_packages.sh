# Sourced by the other scripts: installs what the system lacks.
#
# Each need is "PACKAGE PROBE": the package of Debian and Ubuntu, and how to see that its content is there, however it
# came: command:NAME, header:FILE, file:PATTERN or python (an interpreter that can make a venv and has its headers).

PYTHON=${PYTHON:-python3}

_python_is_usable() {
  "$PYTHON" - <<'CHECK' >/dev/null 2>&1
import ensurepip, os, sys, sysconfig, venv
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(sysconfig.get_path("include") + "/Python.h")))
CHECK
}

_has_header() {
  echo "#if !__has_include(<$1>)
#error missing
#endif" | g++ -E -x c++ - >/dev/null 2>&1
}

# missing_packages "PACKAGE PROBE"...: prints those packages whose content isn't there
missing_packages() {
  local need package probe
  for need in "$@"; do
    package=${need%% *} probe=${need##* }
    case $probe in
      command:*) command -v "${probe#command:}" >/dev/null || echo "$package" ;;
      header:*) _has_header "${probe#header:}" || echo "$package" ;;
      file:*) compgen -G "${probe#file:}" >/dev/null || echo "$package" ;;
      python) _python_is_usable || echo "python3 python3-dev python3-venv" ;;
    esac
  done
}

# install_packages "PACKAGE PROBE"...: installs what is missing, or says in one line what the user has to install
install_packages() {
  local missing as_root=()
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
    sudo -n true 2>/dev/null || as_root=(false)
  fi
  if ! command -v apt-get >/dev/null || [ "${as_root[0]:-}" = false ]; then
    echo "graphtune needs these system packages, please install them (names as in Debian 12): $missing" >&2
    return 1
  fi
  echo "==> Installing system packages: $missing"
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing || {
    echo "graphtune needs these system packages, and apt-get could not install them: $missing" >&2
    return 1
  }
}
