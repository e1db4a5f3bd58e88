#!/usr/bin/env bash
# Downloads the release of Bunsen that the file pins names, and prints the path of the program. Nothing is run before
# its SHA-256 is that of the file. It needs curl, tar, and sha256sum or shasum.
#
#   BUNSEN_DOWNLOADS    where the releases are, if not on GitHub: an https URL with a folder for each version
#   BUNSEN_PUBLIC_KEY   your own copy of the key of the releases, in PEM: then the signature must be right, too
#
# It is written for bash 3.2, which macOS has, and reads nothing of the folder in which it runs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/bunsen.XXXXXX")
cd "$work"

fail() {
  printf '::error title=bunsen::%s\n' "$1" >&2
  exit 1
}

get() { # URL FILE
  curl --disable --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
    --retry 3 --connect-timeout 10 --max-time 300 --output "$2" "$1" >&2 ||
    fail "downloading $1 failed: does this runner need a proxy, or the input downloads with the URL of a mirror?"
}

sha256() { # FILE
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c 1-64
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "this action runs on Linux and macOS, and not on $(uname -s)" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no program for $(uname -m)" ;;
esac

pin=$(grep -E "^[0-9a-f]{64}  bunsen-v[0-9A-Za-z.]+(-[0-9A-Za-z.]+)?-$os-$arch\.tar\.gz\$" "$here/pins" || true)
[ -n "$pin" ] || fail "this commit of Bunsen pins no release: use the commit that the page of a release names"
sum=${pin%%  *}
archive=${pin##*  }
folder=${archive%.tar.gz}
version=${folder#bunsen-}
version=${version%"-$os-$arch"}
from=${BUNSEN_DOWNLOADS:-https://github.com/bunsen-os/bunsen/releases/download}/$version

get "$from/$archive" archive
got=$(sha256 archive)
[ "$got" = "$sum" ] || fail "$from/$archive is not what this commit pins: its SHA-256 is $got, and not $sum"
checked="its SHA-256 is the pinned one"

# The pin alone tells what is run. The signature finds a pin that the maintainers did not make.
if [ -n "${BUNSEN_PUBLIC_KEY:-}" ]; then
  printf '%s\n' "$BUNSEN_PUBLIC_KEY" >key.pem
elif [ -f "$here/release.pem" ]; then
  cp "$here/release.pem" key.pem
fi
if [ -f key.pem ] && command -v openssl >/dev/null; then
  get "$from/SHA256SUMS" SHA256SUMS
  get "$from/SHA256SUMS.sig" SHA256SUMS.sig
  openssl base64 -d -A -in SHA256SUMS.sig -out signature 2>/dev/null || fail "$from/SHA256SUMS.sig is not base64"
  if openssl pkey -pubin -in key.pem -noout -text 2>/dev/null | grep -qi ed25519; then
    set -- pkeyutl -verify -pubin -inkey key.pem -rawin -in SHA256SUMS -sigfile signature
  else
    set -- dgst -sha256 -verify key.pem -signature signature SHA256SUMS
  fi
  openssl "$@" >/dev/null 2>&1 || fail "the signature of $from/SHA256SUMS is not that of the key"
  grep -qxF "$pin" SHA256SUMS || fail "the maintainers signed no $archive with the SHA-256 $sum"
  checked="$checked, and the signature is that of the key"
elif [ -n "${BUNSEN_PUBLIC_KEY:-}" ]; then
  fail "checking the signature needs openssl, which this runner does not have"
fi

tar -xzf archive "$folder/bunsen"
mkdir bin
mv "$folder/bunsen" bin/bunsen
printf 'bunsen %s: %s\n' "$version" "$checked" >&2
if [ -n "${GITHUB_PATH:-}" ]; then printf '%s\n' "$work/bin" >>"$GITHUB_PATH"; fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then printf 'program=%s\n' "$work/bin/bunsen" >>"$GITHUB_OUTPUT"; fi
printf '%s\n' "$work/bin/bunsen"
