# shellcheck shell=bash
# Function of scripts/packages.sh and scripts/packages_test.sh.

# archive NAME: the address of the archive from which this system's own packages come; fails if there is none
archive() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' |
        awk -v "end=/$1/\$" '$0 ~ end && !found { print; found = 1 } END { exit !found }'
}
