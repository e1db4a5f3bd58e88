#!/usr/bin/env bash
# Downloads the release of Bunsen that the file pins names, and prints the path of the program. Nothing is run before
# its SHA-256 is that of the file. It needs curl, tar, and sha256sum or shasum.
#
#   BUNSEN_DOWNLOADS    where the releases are, if not where pins says: an https URL with a folder for each version
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
  local status
  if status=$(curl --disable --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
    --retry 3 --connect-timeout 10 --max-time 300 --write-out '%{http_code}' --output "$2" "$1"); then return; fi
  case $status in
  404) fail "there is no $1: set the input downloads to a place that has the release $version" ;;
  *) fail "downloading $1 failed: does this runner need a proxy, or the input downloads with the URL of a mirror?" ;;
  esac
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

pin=$(grep -E "^[0-9a-f]{64}  bunsen-(v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?)-$os-$arch\.tar\.gz$" "$here/pins" || true)
[ -n "$pin" ] || fail "this commit of Bunsen pins no release for $os/$arch: use the commit that the tag of a version names"
sum=${pin%%  *}
archive=${pin##*  }
folder=${archive%.tar.gz}
version=${folder#bunsen-}
version=${version%"-$os-$arch"}
if [ -n "${BUNSEN_DOWNLOADS:-}" ]; then
  from=$BUNSEN_DOWNLOADS/$version
else
  from=$(grep '^from https://' "$here/pins") || fail "the file pins does not say where the release is: set the input downloads"
  from=${from#from }
fi

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
if [ -f key.pem ] && grep -q MCowBQYDK2VwAyEA key.pem; then
  fail "the public key is an Ed25519 key, which the openssl of macOS cannot check: releases are signed with ECDSA keys"
elif [ -f key.pem ] && command -v openssl >/dev/null; then
  get "$from/SHA256SUMS" SHA256SUMS
  get "$from/SHA256SUMS.sig" SHA256SUMS.sig
  openssl base64 -d -A -in SHA256SUMS.sig -out signature 2>/dev/null || fail "$from/SHA256SUMS.sig is not base64"
  openssl dgst -sha256 -verify key.pem -signature signature SHA256SUMS >/dev/null 2>&1 ||
    fail "the signature of $from/SHA256SUMS is not that of the key"
  grep -qxF "$pin" SHA256SUMS || fail "the maintainers signed no $archive with the SHA-256 $sum"
  checked="$checked, and the signature is that of the key"
elif [ -n "${BUNSEN_PUBLIC_KEY:-}" ]; then
  fail "checking the signature needs openssl, which this runner does not have"
elif [ -f key.pem ]; then
  printf '::warning title=bunsen::%s\n' "the signature of $version is not checked, because this runner has no openssl" >&2
fi

tar -xzf archive "$folder/bunsen"
mkdir bin
mv "$folder/bunsen" bin/bunsen
printf 'bunsen %s: %s\n' "$version" "$checked" >&2
if [ -n "${GITHUB_PATH:-}" ]; then printf '%s\n' "$work/bin" >>"$GITHUB_PATH"; fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then printf 'program=%s\n' "$work/bin/bunsen" >>"$GITHUB_OUTPUT"; fi
printf '%s\n' "$work/bin/bunsen"
