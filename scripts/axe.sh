#!/usr/bin/env bash
# Fetches axe-core, which finds what keeps people from reading a web page, with npm and from npm's own registry.
#
#   scripts/axe.sh
#
# It puts axe.min.js into target/tools, where tests/interop/serve_accessible.rs looks for it.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
for program in npm tar sha256sum; do
    command -v "$program" > /dev/null || {
        echo "scripts/axe.sh: $program is missing" >&2
        exit 1
    }
done
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
(cd "$place" && npm pack --silent "axe-core@$wanted" > archive && tar -xzf "$(cat archive)" package/axe.min.js)
echo "$sha256  $place/package/axe.min.js" | sha256sum --check --quiet
install -D -m 0644 "$place/package/axe.min.js" target/tools/axe.min.js
echo "target/tools/axe.min.js: axe-core $wanted"
