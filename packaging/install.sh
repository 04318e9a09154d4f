#!/bin/sh
# Installs stead for the current user. It needs no root.
#
#   sh install.sh FROM [PREFIX]
#
# FROM is the tarball stead-VERSION-x86_64-linux.tar.gz: a path, or an https:// address. The file SHA256SUMS beside it
# has its checksum. PREFIX is ~/.local by default. The script changes nothing if the checksum does not match.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

from=${1:-${STEAD_FROM:-}}
prefix=${2:-${STEAD_PREFIX:-$HOME/.local}}
[ -n "$from" ] || fail "name the tarball: sh install.sh PATH-OR-URL [PREFIX]"
[ "$(uname -s)" = Linux ] || fail "stead runs on Linux; this is $(uname -s)"
[ "$(uname -m)" = x86_64 ] || fail "this tarball is for x86_64; this machine is $(uname -m)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=$(basename "$from")

# Writes a file of the release to standard output.
get() {
    case $1 in
        https://*|http://127.0.0.1[:/]*|http://localhost[:/]*)
            if command -v curl >/dev/null; then curl -fsSL "$1"
            elif command -v wget >/dev/null; then wget -qO- "$1"
            else fail "install curl or wget, or name a local path"; fi ;;
        *://*) fail "$1 is not an https:// address" ;;
        *) cat "$1" ;;
    esac
}

get "$from" > "$work/$name" || fail "cannot read $from"
get "$(dirname "$from")/SHA256SUMS" > "$work/SHA256SUMS" || fail "cannot read SHA256SUMS beside $from"
expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\$/\1/p" "$work/SHA256SUMS")
[ -n "$expected" ] || fail "SHA256SUMS has no line for $name"
actual=$(sha256sum < "$work/$name" | cut -c1-64)
[ "$expected" = "$actual" ] || fail "the checksum of $name is $actual, and SHA256SUMS says $expected; nothing was installed"

mkdir "$work/tree"
tar -xzf "$work/$name" -C "$work/tree"
for folder in "$work"/tree/*; do tree=$folder; done
"$tree/bin/stead" --version >/dev/null || fail "$name does not run on this machine; its C library may be too old"

mkdir -p "$prefix/bin" "$prefix/share"
cp -R "$tree/share/." "$prefix/share/"
# A running program cannot be overwritten, so each is renamed over the old one.
for program in stead-init stead-eval-worker stead; do
    cp "$tree/bin/$program" "$prefix/bin/.$program.new"
    mv -f "$prefix/bin/.$program.new" "$prefix/bin/$program"
done
echo "installed $("$prefix/bin/stead" --version) in $prefix/bin"
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
