# Sourced by setup.sh: the C++ headers of ONNX Runtime, which its wheel lacks and Debian 12 does not have.

# fetch_onnxruntime_headers FOLDER: FOLDER/onnxruntime gets the headers of Debian's libonnxruntime-dev. Without apt, or
# without the network, the engine is built as absent; nothing else depends on it.
fetch_onnxruntime_headers() {
  local target=$1 work uri apt
  if [ -e "$target/onnxruntime/onnxruntime_cxx_api.h" ] || _has_header onnxruntime/onnxruntime_cxx_api.h; then
    return 0
  fi
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "==> Without the engine onnxruntime: its headers (libonnxruntime-dev) are missing"
    return 0
  }
  echo "==> Fetching the headers of ONNX Runtime"
  work=$(mktemp -d)
  # A configuration of its own: the system's packages and sources stay as they are.
  uri=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2>/dev/null | grep -m1 /debian || true)
  mkdir -p "$work"/{state/lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${uri:-http://deb.debian.org/debian} trixie main" \
    >"$work/sources.list"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$work/state"
    -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
  if "${apt[@]}" update >"$work/log" 2>&1 &&
    (cd "$work" && "${apt[@]}" download libonnxruntime-dev >>log 2>&1 && dpkg-deb -x libonnxruntime-dev_*.deb unpacked); then
    mkdir -p "$target"
    cp -r "$work/unpacked/usr/include/onnxruntime" "$target/"
  else
    echo "==> Without the engine onnxruntime: its headers could not be fetched:"
    tail -n 3 "$work/log"
  fi
  rm -rf "$work"
}
