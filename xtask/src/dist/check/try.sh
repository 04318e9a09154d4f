# Uses an installed stead as a new user does, and counts what is left. Prints one line.
set -eu
fail() {
    echo "$1" >&2
    cat /tmp/up.log /tmp/out >&2 || true
    exit 1
}

stead --version > /tmp/out || fail "stead --version failed"
grep -Eq '^stead [0-9.]+ \([0-9a-f]{12}\)$' /tmp/out || fail "stead --version does not name its commit"
stead run -- sh -c 'echo "box $(id -u)"' > /tmp/out 2>/tmp/up.log || fail "stead run failed without a server"
grep -q '^box ' /tmp/out || fail "stead run printed no output"

stead up </dev/null >/tmp/up.log 2>&1 &
tries=0
until stead status >/tmp/out 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "stead up did not start a server"
    sleep 0.1
done
session=$(stead session create --agent-type example) || fail "no session"
stead tool call "$session" write --arg path=notes/a.txt --arg content=hello >/tmp/out 2>&1 || fail "write failed"
[ "$(stead cp "$session:notes/a.txt" -)" = hello ] || fail "the file is not there"
stead session close "$session" >/tmp/out 2>&1 || fail "close failed"
mkdir -p /tmp/project
echo one > /tmp/project/a.txt
stead run --dir /tmp/project -- sh -c 'cat a.txt; echo two > b.txt' >/tmp/out 2>&1 || fail "stead run --dir failed"
grep -q '^+two$' /tmp/out || fail "stead run --dir shows no change"
[ "$(stead eval '6 * 7')" = 42 ] || fail "stead eval failed"
stead stop >/tmp/out 2>&1 || fail "stead stop failed"

# A box and its keeper end shortly after their session.
tries=0
while grep -ls '^stead' /proc/[0-9]*/comm >/tmp/out; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { ps > /tmp/out; fail "processes are left"; }
    sleep 0.1
done
home=${STEAD_HOME:-$HOME/.local/share/stead}
[ -d "$home" ] || fail "there is no home at $home"
if grep -F " $home/" /proc/self/mountinfo >/tmp/out; then fail "mounts are left"; fi
for folder in boxes volumes; do
    if ls "$home/$folder" 2>/dev/null | grep . >/tmp/out; then fail "files are left in $home/$folder"; fi
done
