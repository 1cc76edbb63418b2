#!/usr/bin/env bash
# Follows a page: runs the commands of its `console` blocks from the first to the last, answers their questions, and
# compares what they print with what the page shows. Stops at the first that fails.
#
#   scripts/follow.sh [--without-tests]          the README in an empty Debian 12; as root, with mmdebstrap
#   scripts/follow.sh --here [--without-tests]   the README in the present system and folder
#   scripts/follow.sh PAGE                       a page of the manual in the present system, in a new folder
#
# Figures, identifiers and what stands behind the labels of `scrim status` may differ; so may all of a line with `…`.
set -euo pipefail

# shellcheck source=scripts/empty_system.sh
. "$(dirname "$0")/empty_system.sh"
page=$(realpath "$(dirname "$0")/../README.md")
where=empty tests=yes
for option in "$@"; do
    case $option in
        --here) where=here ;;
        --without-tests) tests=no ;;
        *.md) page=$(realpath "$option") where=new-folder ;;
        *) sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
    esac
done

in_empty_system() {
    local place options=(--here)
    place=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf --one-file-system '$place'" EXIT
    make_empty_system "$place/debian" "$(dirname "$page")"
    [ $tests = yes ] || options+=(--without-tests)
    enter_empty_system "$place/debian" scripts/follow.sh "${options[@]}"
}

# Commands, and what they print

# Lines of output in a form that two machines share, without what was erased from the terminal.
comparable() {
    sed -E "s,$XDG_RUNTIME_DIR,/run/user/1000,g; s,$PWD/,/home/me/,g" "$@" | sed -E 's/^.*\x1b\[K//; s/\r//g; s/[0-9a-f]{8}-[0-9a-f-]{27}/ID/g; s/[0-9]+/N/g
        s/^( *[a-z ]+: {2,}).*/\1/; s/ +/ /g; s/ $//'
}

# shows EXPECTED PRINTED: whether each expected line was printed; names the first that was not
shows() {
    local line
    while IFS= read -r line; do
        grep -qxF -- "$line" <(comparable "$2") || { missing=$line; return 1; }
    done < <(grep -v '…' "$1" | grep -v '^ *$' | comparable)
}

# answer PRINTED ANSWERED: replies to the question behind those that are answered
answer() {
    local question
    question=$(grep -oE "capital letters\): |[Pp]assphrase[^:]*: " "$1" | sed -n "$(($2 + 1))p")
    case $question in
        "") return 1 ;;
        capital*) echo YES >&3 ;;
        *) echo "correct horse battery staple" >&3 ;;
    esac
}

# run COMMAND EXPECTED: on a terminal, as a reader has one
run() {
    local answered=0 status=0 asked_to_end=no job shown started=$SECONDS
    : > "$work/printed"
    rm -f "$work/replies"
    mkfifo "$work/replies"
    script -qefc "$1" /dev/null < "$work/replies" > "$work/printed" &
    job=$!
    tail -f -n +1 -s 0.2 --pid=$job "$work/printed" &
    shown=$!
    exec 3> "$work/replies"
    while kill -0 $job 2>/dev/null; do
        sleep 0.2
        if answer "$work/printed" $answered; then
            answered=$((answered + 1))
        elif [[ $1 == "scrim serve"* && $1 != *--check* && $asked_to_end = no ]]; then
            # A server runs until its user ends it.
            if shows "$2" "$work/printed" || [ $((SECONDS - started)) -gt 120 ]; then
                asked_to_end=yes
                printf '\003' >&3
            fi
        fi
    done
    wait $job || status=$?
    exec 3>&-
    wait $shown
    if [ $status != 0 ]; then
        echo "scripts/follow.sh: exit code $status: $1" >&2
        exit 1
    fi
    if ! shows "$2" "$work/printed"; then
        echo "scripts/follow.sh: $1: the page shows a line that was not printed: $missing" >&2
        exit 1
    fi
}

# What a page that stopped has left open goes too.
clean() {
    local socket
    if [ $where = new-folder ]; then
        findmnt -rno TARGET | grep -F "$work/" | tac | xargs -r umount --lazy 2> /dev/null || true
        for socket in "$XDG_RUNTIME_DIR"/scrim/*.control; do
            [ ! -S "$socket" ] || scrim close "$(basename "$socket" .control)" 2> /dev/null || true
        done
    fi
    rm -rf --one-file-system "$work"
}

# steps: each command of a console block in a file `NUMBER.command`, what the page shows behind it in `NUMBER.expected`
steps() {
    awk -v work="$work" '
        /^```/ { inside = ($0 == "```console"); next }
        !inside { next }
        /^\$ / {
            file = sprintf("%s/%03d", work, ++count)
            command = substr($0, 3)
            sub(/ +# .*/, "", command)
            print command > (file ".command")
            printf "" > (file ".expected")
            next
        }
        { print > (file ".expected") }
    ' "$page"
}

if [ $where = empty ]; then
    in_empty_system
    exit
fi
work=$(mktemp -d)
trap clean EXIT
if [ $where = here ]; then
    # The addresses in the README are those of the user 1000.
    export XDG_RUNTIME_DIR=/run/user/1000
else
    unset XDG_STATE_HOME XDG_CONFIG_HOME XDG_CACHE_HOME
    export XDG_RUNTIME_DIR=$work/run HOME=$work/home
    mkdir "$HOME"
    cd "$HOME"
fi
mkdir -p "$XDG_RUNTIME_DIR"
chmod 0700 "$XDG_RUNTIME_DIR"
steps
shopt -s nullglob
for file in "$work"/*.command; do
    command=$(cat "$file")
    printf '\n\033[1m$ %s\033[0m\n' "$command"
    case $command in
        export\ *) eval "$command" ;;
        "make test")
            if [ $tests = no ]; then
                echo "left out"
            else
                run "$command" "${file%.command}.expected"
            fi
            ;;
        *) run "$command" "${file%.command}.expected" ;;
    esac
done
echo
echo "all commands of ${page##*/} work"
