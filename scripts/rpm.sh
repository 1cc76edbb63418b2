# shellcheck shell=bash
# Function of scripts/packages.sh that makes an RPM package of the files of the Debian package. No root is needed.
#
# It uses that script's variables `folder`, `version` and SOURCE_DATE_EPOCH, and its functions.
# shellcheck disable=SC2154

make_rpm() {
    local top=$folder/rpm staged=$folder/rpm/staged share=$folder/rpm/staged/usr/share
    rm -rf "$top"
    package_tree "$staged"
    install -d "$share/licenses/scrim"
    mv "$share"/doc/scrim/{LICENSE-MIT,LICENSE-APACHE,licences.txt.gz} "$share/licenses/scrim"
    settle_times "$staged"
    # Settings in the home folder could change the package. A version's `-` separates the release here.
    HOME=$top rpmbuild -bb --quiet --target x86_64-linux --define "_topdir $top" --define "_rpmdir $folder" \
        --define '_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
        --define "scrim_version ${version//-/\~}" --define "staged $staged" --define "scripts $PWD/packaging/debian" \
        packaging/rpm/scrim.spec
    rm -rf "$top"
}
