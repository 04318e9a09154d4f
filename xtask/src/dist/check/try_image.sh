# try_image.sh ARCHIVE: loads the image into a private Podman and runs it. Leaves nothing behind.
set -eu
archive=$1
directory=$(mktemp -d "${TMPDIR:-/tmp}/stead-image.XXXXXX")
cd "$directory"
cat > containers.conf <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
events_logger = "none"
cgroup_manager = "cgroupfs"
END
cat > storage.conf <<END
[storage]
driver = "overlay"
runroot = "$directory/run"
graphroot = "$directory/store"
END
export CONTAINERS_CONF="$directory/containers.conf" CONTAINERS_STORAGE_CONF="$directory/storage.conf"
podman() { command podman --tmpdir "$directory/tmp" "$@"; }
end() {
    trap - EXIT
    podman rm --all --force --time 0 >/dev/null 2>&1 || true
    # Podman mounts its storage below itself, so one pass may not see every mount.
    for _ in 1 2 3; do
        grep -o "$directory[^ ]*" /proc/self/mountinfo | sort -ru | while read -r mount; do umount -l "$mount" 2>/dev/null || true; done
    done
    rm -rf "$directory"
}
trap end EXIT
podman load --quiet --input "$archive" >/dev/null
podman run --rm --network none localhost/stead:latest --version
# The default command is a server. Boxes need privileges, as compose.yaml gives them.
podman run --rm --network none --privileged --volume "$2:/try.sh:ro" --entrypoint /bin/sh localhost/stead:latest /try.sh
