# A private Podman: its own storage, its own settings, its own socket, images made from files of this machine.
# Says where it is, waits until its standard input ends, and leaves nothing behind.
set -eu
trap '' INT TERM
directory=$(mktemp -d "${TMPDIR:-/tmp}/stead-podman.XXXXXX")
mkdir "$directory/store" "$directory/run" "$directory/tmp" "$directory/images"
# conmon writes a file named oom into its working directory.
cd "$directory"
cat > "$directory/containers.conf" <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
events_logger = "none"
cgroup_manager = "cgroupfs"
[engine.runtimes]
runsc = ["$directory/runsc"]
runsc-shut = ["$(command -v runsc || echo /usr/bin/runsc)"]
END
# gVisor, allowed to call the server at the box's own gate; no box has a network.
printf '#!/bin/sh\nexec runsc --host-uds=open --network=none "$@"\n' > "$directory/runsc"
chmod 755 "$directory/runsc"
cat > "$directory/storage.conf" <<END
[storage]
driver = "overlay"
runroot = "$directory/run"
graphroot = "$directory/store"
END
export CONTAINERS_CONF="$directory/containers.conf" CONTAINERS_STORAGE_CONF="$directory/storage.conf"
podman() { command podman --tmpdir "$directory/tmp" "$@"; }

end() {
    trap - EXIT
    kill "$service" 2>/dev/null || true
    wait "$service" 2>/dev/null || true
    podman rm --all --force --time 0 >/dev/null 2>&1 || true
    grep -o "$directory[^ ]*" /proc/self/mountinfo | sort -ru | while read -r mount; do umount -l "$mount" 2>/dev/null || true; done
    rm -rf "$directory"
}
service=
trap end EXIT

# busybox: one static program, no library, no bash. nothing: no program at all.
bare="$directory/images/bare"
mkdir -p "$bare/bin" "$bare/tmp" "$directory/images/nothing/etc"
cp "$(command -v busybox)" "$bare/bin/busybox"
for name in sh ls cat echo sleep true false id head mkdir rm; do ln -s busybox "$bare/bin/$name"; done
tar -C "$bare" -cf "$directory/images/busybox.tar" .
tar -C "$directory/images/nothing" -cf "$directory/images/nothing.tar" .

# tools: a glibc image with bash, python3 and the usual commands, as this machine has them.
{
    for name in bash sh cat chmod cp cut date dd df diff echo env false find grep head id kill ln ls mkdir mktemp mount mv pgrep \
        printf ps pwd python3 readlink rm rmdir sed seq setsid sleep sort stat stty sync tail tar tee test timeout touch tr true uname wc xargs; do
        program=$(PATH=/usr/bin:/bin:/usr/sbin:/sbin command -v "$name" || true)
        case "$program" in /*) echo "$program"; realpath "$program"; ldd "$(realpath "$program")" 2>/dev/null | grep -o '/[^ ]*' ;; esac
    done
    python=$(PATH=/usr/bin:/bin python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    find "$python" -name '*.py' -not -path '*/test/*' -not -path '*/idlelib/*' -not -path '*/dist-packages/*' -not -path '*/lib2to3/*'
    find "$python/lib-dynload" -name '*.so'
    find "$python/lib-dynload" -name '*.so' -exec ldd {} + 2>/dev/null | grep -o '=> /[^ ]*' | cut -c4-
} | sort -u | while read -r file; do
    # As they really are, with the links in between.
    echo "$(realpath "$(dirname "$file")")/$(basename "$file")"
    realpath "$file"
done | sort -u | sed 's,^/,,' > "$directory/images/list"
for name in bin sbin lib lib64; do [ -L "/$name" ] && echo "$name"; done >> "$directory/images/list"
tar -C / -cf "$directory/images/tools.tar" --no-recursion --files-from "$directory/images/list"

for name in busybox nothing tools; do
    podman import --quiet "$directory/images/$name.tar" "localhost/stead-test/$name:1" >/dev/null
done
# Not through the function above: the number is to be Podman's own.
command podman --tmpdir "$directory/tmp" system service --time=0 "unix://$directory/podman.sock" </dev/null >"$directory/service.log" 2>&1 &
service=$!
for _ in $(seq 200); do [ -S "$directory/podman.sock" ] && break; sleep 0.05; done
echo "$directory $service"
cat >/dev/null
