#!/usr/bin/env bash
# Runs a cargo command with all that a static, optimised llmscaler for Linux takes: the target, its C compiler and its linker.
#
# The Dockerfile, the check of the image and the release workflow build by this script, so that they build the same. Binaries of either
# architecture can be built on either. A musl target links the C library in by default; ring, our one dependency in C, needs of it only
# what every libc has, so Debian's compiler for the architecture does, and no musl toolchain is needed.
#
# usage: static.sh amd64|arm64 prepare    install what is missing: the target with rustup, the compiler with apt-get
#        static.sh amd64|arm64 build      build what is attached to a release, and print the path of the binary on the last line
#        static.sh amd64|arm64 image      build what goes into the image, likewise: small, and without the simulated fleets
#        static.sh amd64|arm64 cook FILE  build the dependencies of the latter alone, from a recipe of cargo-chef
set -euo pipefail

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

case "${1-}" in
  amd64) target=x86_64-unknown-linux-musl compiler=x86_64-linux-gnu-gcc packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
  arm64) target=aarch64-unknown-linux-musl compiler=aarch64-linux-gnu-gcc packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

variable=${target//-/_}
export "CC_$variable=$compiler" "CARGO_TARGET_${variable^^}_LINKER=$compiler"
flags=(--locked --target "$target" --package llmscaler)
image=(--profile image --no-default-features)

# A compiler without the headers of a C library is not enough.
compiles() { "$compiler" -E - <<<'#include <stdint.h>' >/dev/null 2>&1; }

case "${2-}" in
  prepare)
    # An image that brings the target and the compiler needs neither rustup's server nor Debian's.
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
      rustup target add "$target"
    fi
    if ! compiles; then
      as_root=()
      [ "$(id -u)" = 0 ] || as_root=(sudo)
      "${as_root[@]}" apt-get update -q
      "${as_root[@]}" apt-get install -qy --no-install-recommends "${packages[@]}"
    fi
    ;;
  build | image)
    if ! compiles; then
      echo "static.sh: no $compiler on the PATH, or none with headers; install ${packages[*]}, or run \`static.sh $1 prepare\`" >&2
      exit 1
    fi
    profile=(--release)
    [ "$2" = build ] || profile=("${image[@]}")
    cargo build "${flags[@]}" "${profile[@]}"
    echo "${CARGO_TARGET_DIR:-target}/$target/${2/build/release}/llmscaler"
    ;;
  cook) cargo chef cook "${flags[@]}" "${image[@]}" --recipe-path "${3:?a recipe of cargo-chef}" ;;
  *) usage >&2; exit 2 ;;
esac
