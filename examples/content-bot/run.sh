#!/bin/sh
# Push a new version, sync it, apply it at a step boundary, and verify the session by replay.
set -eu
stead=${STEAD:-stead}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/agent-type.json" <<'JSON'
{ "id": "note-keeper",
  "workspace": { "enabled": true, "provider": "memory", "workspace_policy": "empty", "tools": ["ls", "read", "write"] },
  "content": { "workspace": "notes", "run": { "provider": "anthropic", "model": "some-model" } } }
JSON

"$stead" content validate "$here/content"
first=$("$stead" content push "$here/content" --name notes)
echo "pushed notes@$first"
"$stead" agent-type create "$work/agent-type.json" > /dev/null 2>&1 || true
session=$("$stead" session create --agent-type note-keeper)
run=$("$stead" runs start "$session" --input "What is on the list today?")
"$stead" runs step "$session" "$run" --json > "$work/step1.json"
"$stead" runs call "$session" "$run" write_file --arg file_path=2026-01-01.md --arg content="- water the plants"

# A push alone does not change the session.
cp -R "$here/content" "$work/content"
echo "Answer in one short sentence." > "$work/content/prompts/templates/response.style.md"
second=$("$stead" content push "$work/content" --name notes --expected-head "$first")
echo "pushed notes@$second"
"$stead" runs step "$session" "$run" --json > "$work/step2.json"
hash() { sed -n 's/.*"inputs_hash": *"\([^"]*\)".*/\1/p' "$1"; }
test "$(hash "$work/step1.json")" = "$(hash "$work/step2.json")" && echo "step 2 is made from the same inputs"

"$stead" sync "$session" notes
"$stead" apply-content "$session" --mode next_step_boundary
"$stead" runs step "$session" "$run" --json > "$work/step3.json"
test "$(hash "$work/step2.json")" != "$(hash "$work/step3.json")" && echo "step 3 is not"
"$stead" runs complete "$session" "$run"

"$stead" replay "$session"
"$stead" replay "$session" --against content "notes@$first"
"$stead" session export "$session" -o "$work/journal.ndjson"
"$stead" replay "$work/journal.ndjson"
"$stead" session close "$session"
