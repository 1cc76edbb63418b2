#!/usr/bin/env bash
# Builds the manual as one site that can be searched, with mdBook, and checks its links.
#
#   scripts/manual.sh FOLDER
#
# The pages are README.md, docs/ and the other documents of the repository's root, with their first headings as titles.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:?usage: scripts/manual.sh FOLDER}")
source=$folder/source
mdbook_wanted=0.4.52

# The order of the pages. A line that starts with # begins a part.
pages() {
    cat <<.
README.md
# The first hour
docs/manual/first-hour/index.md
docs/manual/first-hour/cryptsetup.md
docs/manual/first-hour/stick.md
docs/manual/first-hour/https.md
docs/manual/first-hour/https-volume.md
docs/manual/first-hour/virtual-machine.md
docs/manual/first-hour/boot.md
docs/manual/first-hour/broken-header.md
docs/manual/first-hour/choose.md
docs/manual/first-hour/pictures.md
docs/manual/first-hour/protects.md
# By task
docs/manual/commands.md
docs/manual/pack.md
docs/manual/mount.md
docs/manual/import.md
docs/compatibility.md
docs/manual/keys.md
docs/manual/where.md
docs/manual/places.md
docs/manual/failover.md
docs/manual/many-servers.md
docs/manual/snapshots.md
docs/manual/network.md
docs/manual/tables.md
docs/manual/kernel.md
docs/manual/copy.md
docs/manual/files.md
docs/serving.md
docs/manual/measure.md
docs/doctor.md
docs/production.md
docs/packages.md
# What it promises
SECURITY.md
docs/crash-safety.md
docs/stability.md
docs/performance/results.md
docs/performance/commands.md
docs/performance/method.md
CHANGELOG.md
# How it is made
ARCHITECTURE.md
docs/design/data-path.md
docs/design/ciphers.md
docs/design/headers.md
docs/design/nbd.md
docs/design/remote.md
docs/design/fuse.md
docs/design/kernel.md
docs/design/files.md
docs/design/https.md
docs/design/measurements.md
docs/testing.md
docs/fuzzing.md
docs/nightly.md
docs/dependencies.md
CONTRIBUTING.md
.
}

mdbook_is_here() {
    command -v mdbook > /dev/null || {
        PATH=$PWD/target/tools/bin:$PATH
        command -v mdbook > /dev/null
    }
}

summary() {
    local page title
    echo '# Summary'
    while read -r page; do
        case $page in
            '#'*) printf '\n%s\n\n' "$page" ;;
            *)
                title=$(sed -n 's/^# //p;T;q' "$page")
                printf '%s[%s](%s)\n' "$([ "$page" = README.md ] || echo '- ')" "$title" "$page"
                ;;
        esac
    done < <(pages)
}

# sources PATTERN...: files of the repository, new ones among them
sources() {
    git ls-files --cached --others --exclude-standard "$@"
}

# Every page is in the list: one that is not would be in no menu.
check_pages() {
    local missing
    missing=$(comm -23 <(sources '*.md' | grep -E '^(docs/|[A-Z]+\.md$)' | sort) <(pages | sort))
    if [ -n "$missing" ]; then
        printf 'scripts/manual.sh: not in the list of pages: %s\n' "$missing" >&2
        exit 1
    fi
}

# Files of the code that pages link to.
linked_code() {
    sources -z docs ./*.md | xargs -0 grep -ohE '\]\((\.\./)*crates/[^)#]+' -- | sed -E 's,^]\((\.\./)*,,' | sort -u
}

# Each link and picture of the book's pages, by the path within the book that it leads to, and the page that has it.
links() {
    local page
    find . -name '*.html' ! -name 404.html -printf '%P\n' | while IFS= read -r page; do
        grep -oE '\b(href|src)="[^"]*"' "$page" | sed -E 's/^[a-z]+="(.*)"$/\1/' | grep -vE '^([a-z+]+:|$)' \
            | sed "s,^#,$(basename "$page")#,; s,^,$(dirname "$page")/,; s,\$,\t$page,"
    done > ../links
    paste <(cut -f 1 ../links | xargs -d '\n' realpath --canonicalize-missing --no-symlinks --relative-to=. --) \
        <(cut -f 2 ../links) | sort -u
}

# What a link can lead to: files, and places within pages.
targets() {
    local page
    find . -type f -printf '%P\n'
    find . -name '*.html' -printf '%P\n' | while IFS= read -r page; do
        echo "$page#"
        grep -oE '\bid="[^"]*"' "$page" | sed -E "s,^id=\"(.*)\"\$,$page#\1,"
    done
}

# Everything that a page of the book links to or shows is in the book.
check_links() (
    export LC_ALL=C
    cd "$folder/site"
    broken=$(join -t $'\t' -v 1 <(links) <(targets | sort -u))
    while IFS=$'\t' read -r target page; do
        [ -z "$target" ] || echo "scripts/manual.sh: $page: the book has no $target" >&2
    done <<< "$broken"
    [ -z "$broken" ]
)

check_pages
mdbook_is_here || {
    cargo install --locked --quiet mdbook --version $mdbook_wanted --root target/tools
    mdbook_is_here
}
rm -rf "$source" "$folder/site"
mkdir -p "$source"
sources -z docs ./*.md LICENSE-APACHE LICENSE-MIT | xargs -0 cp --parents -t "$source"
linked_code | xargs -r -d '\n' cp --parents -t "$source"
summary > "$source/SUMMARY.md"
cat > "$folder/book.toml" <<.
[book]
title = "Scrim"
description = "LUKS volumes without root, and files over HTTPS"
language = "en"
src = "source"

[build]
build-dir = "site"
create-missing = false
# The one that makes index.html of README.md leaves links to it behind; the first page becomes index.html anyway.
use-default-preprocessors = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false
no-section-label = true

[output.html.fold]
enable = true
level = 1

[output.html.search]
limit-results = 30
use-boolean-and = true
.
mdbook build "$folder" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
check_links
echo "$folder/site/index.html"
