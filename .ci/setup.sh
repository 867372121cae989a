#!/bin/bash
# Makes everything ready that building and testing nacre needs; does nothing where it is ready.
#
#   .ci/setup.sh [packages] [cross] [python] [build]     default: all but cross
#
# packages  installs the Debian packages below that are missing (apt-get, through sudo unless root)
# cross     the same for those that run what is compiled for other machines: cross compilers and QEMU
# python    makes the virtual environment in the user's cache folder, named after its requirements
# build     configures and builds into build/ (NACRE_BUILD names another folder)
#
# Source it to get the variables too: NACRE_ROOT, NACRE_BUILD, NACRE_PYTHON and NACRE_CACHE.
# Name a Python that already has torch in NACRE_PYTHON: then torch is not installed again, and what else is
# missing goes into a virtual environment on top of it.

NACRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
NACRE_BUILD=${NACRE_BUILD:-$NACRE_ROOT/build}
NACRE_CACHE=${NACRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nacre}
NACRE_TORCH_VERSION=2.15
# Clones of one user share what was compiled: paths in the project count as relative.
export CCACHE_BASEDIR=$NACRE_ROOT CCACHE_NOHASHDIR=1

nacre_packages=(
  build-essential cmake ninja-build ccache pkg-config git
  llvm-19-dev llvm-19-tools libclang-19-dev liblld-19-dev clang-19 lld-19 libomp-19-dev libclang-rt-19-dev
  zlib1g-dev libzstd-dev libzip-dev libflatbuffers-dev flatbuffers-compiler
  nlohmann-json3-dev libxxhash-dev libcli11-dev libfmt-dev
  libgtest-dev libbenchmark-dev
  python3 python3-dev python3-venv
  espeak-ng
)

nacre_cross_packages=(
  gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross
  gcc-riscv64-linux-gnu g++-riscv64-linux-gnu libc6-dev-riscv64-cross
  gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf libc6-dev-armhf-cross
  qemu-user qemu-system-arm qemu-system-misc
)

nacre_say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
nacre_fail() {
  printf 'nacre set-up: %s\n' "$*" >&2
  return 1
}

# Runs a step that is quiet when it works; its whole output is shown when it does not.
nacre_quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

# nacre_missing_packages PACKAGE...: those that are not installed.
nacre_missing_packages() {
  local package
  local -A installed=()
  while read -r package; do
    installed[$package]=1
  done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p')
  for package; do
    [ -n "${installed[$package]:-}" ] || printf '%s ' "$package"
  done
}

# nacre_install_packages PACKAGE...
nacre_install_packages() {
  local missing as_root=()
  command -v dpkg-query >/dev/null ||
    { nacre_fail "this is not a Debian system; it needs the equivalent of: $*"; return 1; }
  missing=$(nacre_missing_packages "$@")
  [ -n "$missing" ] || return 0
  nacre_say "installing Debian packages: $missing"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      { nacre_fail "missing Debian packages, and neither root nor sudo to install them: $missing"; return 1; }
    as_root=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  nacre_quietly "${as_root[@]}" apt-get update ||
    nacre_say "apt-get update did not work; trying with the lists that are there"
  # shellcheck disable=SC2086  # a list of words
  nacre_quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing ||
    { nacre_fail "apt-get cannot install: $missing"; return 1; }
}

# nacre_environment NAME BASE_PYTHON OVER FILE...: the virtual environment NAME in the cache, with the packages of
# the requirement FILEs. OVER, where not empty, is a Python whose packages it sees as well.
nacre_environment() {
  local folder=$NACRE_CACHE/$1 base=$2 over=$3 file site
  shift 3
  if [ ! -e "$folder/.complete" ]; then
    mkdir -p "$NACRE_CACHE"
    (
      flock 9 || exit 1
      [ -e "$folder/.complete" ] && exit 0
      rm -rf "$folder"
      nacre_say "making the Python environment $folder"
      nacre_quietly "$base" -m venv "$folder" ||
        { nacre_fail "$base cannot make a virtual environment"; exit 1; }
      if [ -n "$over" ]; then
        site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        "$over" -c 'import site, sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' \
          >"$site/zz_base.pth"
      fi
      for file in "$@"; do
        nacre_say "  installing $(grep -c '^[a-zA-Z]' "$file") packages of ${file#"$NACRE_ROOT/"} ..."
        nacre_quietly "$folder/bin/python" -m pip install --disable-pip-version-check --no-deps -r "$file" ||
          { nacre_fail "pip cannot install ${file#"$NACRE_ROOT/"}"; exit 1; }
      done
      touch "$folder/.complete"
    ) 9>"$NACRE_CACHE/$(basename "$folder").lock" || return 1
  fi
  printf '%s\n' "$folder/bin/python"
}

# nacre_environment_over NAME PYTHON FILE: the packages of the requirement FILE over those of PYTHON; both are in its name.
nacre_environment_over() {
  nacre_environment "$1-$( (echo "$2"; cat "$3") | sha256sum | cut -c 1-12)" "$2" "$2" "$3"
}

nacre_hash() { cat "$@" | sha256sum | cut -c 1-12; }

nacre_setup_python() {
  local own=$NACRE_ROOT/.ci/requirements.txt torch=$NACRE_ROOT/.ci/requirements-torch.txt
  local given=${NACRE_PYTHON:-} version
  if [ "${given#"$NACRE_CACHE"/venv-}" != "$given" ] && [ -n "$given" ]; then
    return 0 # made by an earlier call
  fi
  if [ -z "$given" ]; then
    NACRE_PYTHON=$(nacre_environment "venv-$(nacre_hash "$torch" "$own")" python3 "" "$torch" "$own") || return 1
  else
    version=$("$given" -c 'import torch; print(torch.__version__)') ||
      { nacre_fail "NACRE_PYTHON is $given, which cannot import torch"; return 1; }
    case $version in
      "$NACRE_TORCH_VERSION".*) ;;
      *) nacre_fail "NACRE_PYTHON is $given with torch $version; needed is $NACRE_TORCH_VERSION"; return 1 ;;
    esac
    NACRE_PYTHON=$(nacre_environment_over venv-over "$given" "$own") || return 1
  fi
  export NACRE_PYTHON
}

# nacre_setup_build [FOLDER] [-DOPTION=...] [TARGET ...]: configures where something changed, then builds.
nacre_setup_build() {
  local folder=${1:-$NACRE_BUILD} argument wanted options=() targets=()
  shift || true
  for argument in "$@"; do
    case $argument in
      -D*) options+=("$argument") ;;
      *) targets+=("$argument") ;;
    esac
  done
  options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
    "-DPython3_EXECUTABLE=$NACRE_PYTHON" "${options[@]}")
  wanted="${options[*]}"
  if [ ! -e "$folder/build.ninja" ] || [ "$(cat "$folder/.options" 2>/dev/null)" != "$wanted" ]; then
    nacre_say "configuring $folder"
    nacre_quietly cmake -G Ninja -S "$NACRE_ROOT" -B "$folder" "${options[@]}" ||
      { nacre_fail "cmake cannot configure $folder"; return 1; }
    printf '%s' "$wanted" >"$folder/.options"
  fi
  nacre_say "building $folder"
  ninja -C "$folder" -j "$(nproc)" "${targets[@]}" >&2 || { nacre_fail "the build failed"; return 1; }
}

nacre_setup() {
  local step
  [ $# -gt 0 ] || set -- packages python build
  for step in "$@"; do
    case $step in
      packages) nacre_install_packages "${nacre_packages[@]}" || return 1 ;;
      cross) nacre_install_packages "${nacre_cross_packages[@]}" || return 1 ;;
      python) nacre_setup_python || return 1 ;;
      build) nacre_setup_build || return 1 ;;
      *) nacre_fail "no step '$step'; there are: packages cross python build"; return 1 ;;
    esac
  done
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -u
  nacre_setup "$@" || exit 1
  [ -z "${NACRE_PYTHON:-}" ] || nacre_say "Python: $NACRE_PYTHON"
fi
