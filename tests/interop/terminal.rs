//! Questions at a terminal, and the effects of answers.

use crate::support::{PYTHON, Place, assert_same, have, noise};
use crate::volume::{Image, LUKS1, OTHER, PASSPHRASE, USUAL};

const COST: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 64";

/// Text that the terminal showed, the exit code, and whether the terminal echoes again.
pub(crate) struct Session {
    pub(crate) shown: String,
    pub(crate) code: i32,
    echo: bool,
}

/// Runs `scrim` at a terminal, by the steps that `terminal.py` describes.
pub(crate) fn at_a_terminal(place: &Place, line: &str, steps: &str) -> Session {
    let words = ["scrim"].into_iter().chain(line.split_whitespace());
    let output = place.script("terminal.py", words, steps.as_bytes());
    let output = String::from_utf8(output).unwrap();
    let (shown, end) = output.trim_end().rsplit_once('\n').unwrap();
    let end: Vec<_> = end.split(' ').collect();
    Session {
        shown: shown.to_owned(),
        code: end[1].parse().unwrap(),
        echo: end[3] == "on",
    }
}

pub(crate) fn steps(steps: &[(&str, &str)]) -> String {
    let lines = steps.iter().map(|(verb, text)| format!("{verb} {text}\n"));
    lines.collect()
}

#[test]
fn formatting_and_opening_ask_for_what_they_need() {
    if !have(&[PYTHON]) {
        return;
    }
    let place = Place::new();
    let format = format!("format disk.img --size 18M {COST}");
    let session = at_a_terminal(
        &place,
        &format,
        &steps(&[
            ("wait", "capital letters): "),
            ("type", "YES\\r"),
            ("wait", "Enter passphrase for disk.img: "),
            ("type", "opem\\x7fn sesame\\r"),
            ("wait", "Verify passphrase: "),
            ("type", "open sesame\\r"),
        ]),
    );
    assert_eq!((session.code, session.echo), (0, true), "{}", session.shown);
    assert!(session.shown.contains("This creates disk.img, 18 MiB"));
    assert!(!session.shown.contains("sesame"), "{}", session.shown);

    let open = at_a_terminal(
        &place,
        "open disk.img secret",
        &steps(&[
            ("wait", "Enter passphrase for disk.img: "),
            ("type", "open sesame\\r"),
        ]),
    );
    assert_eq!((open.code, open.echo), (0, true), "{}", open.shown);
    assert!(open.shown.contains("nbd+unix:///"), "{}", open.shown);
    // The terminal has gone and the volume has not.
    assert!(
        place
            .scrim(["status", "secret"])
            .contains("secret is active")
    );
    place.close("secret");
}

#[test]
fn anything_but_an_uppercase_yes_leaves_the_image_alone() {
    if !have(&[PYTHON]) {
        return;
    }
    let place = Place::new();
    let before = noise(18 << 20, 1);
    place.write("disk.img", &before);
    for answer in ["yes\\r", "Y\\r", "\\r", "\\x04", "YES please\\r"] {
        let session = at_a_terminal(
            &place,
            &format!("format disk.img {COST}"),
            &steps(&[("wait", "capital letters): "), ("type", answer)]),
        );
        assert_eq!(session.code, 1, "{answer}: {}", session.shown);
        let shown = &session.shown;
        assert!(
            shown.contains("This will overwrite disk.img irrevocably"),
            "{shown}"
        );
        assert!(
            shown.contains("not confirmed; nothing was changed"),
            "{shown}"
        );
        assert_same(
            &std::fs::read(place.path("disk.img")).unwrap(),
            &before,
            answer,
        );
    }
    let session = at_a_terminal(
        &place,
        &format!("format new.img --size 18M {COST}"),
        &steps(&[("wait", "capital letters): "), ("type", "no\\r")]),
    );
    assert_eq!(session.code, 1);
    assert!(!place.path("new.img").exists());
}

#[test]
fn two_passphrases_that_differ_leave_the_image_alone() {
    if !have(&[PYTHON]) {
        return;
    }
    let place = Place::new();
    let before = noise(18 << 20, 1);
    place.write("disk.img", &before);
    for (first, second, said) in [
        ("one", "two", "the two passphrases differ"),
        ("", "", "the passphrase is empty"),
    ] {
        let session = at_a_terminal(
            &place,
            &format!("format -q disk.img {COST}"),
            &steps(&[
                ("wait", "Enter passphrase"),
                ("type", &format!("{first}\\r")),
                ("wait", "Verify passphrase"),
                ("type", &format!("{second}\\r")),
            ]),
        );
        assert_eq!((session.code, session.echo), (2, true), "{}", session.shown);
        assert!(session.shown.contains(said), "{}", session.shown);
        assert_same(
            &std::fs::read(place.path("disk.img")).unwrap(),
            &before,
            said,
        );
    }
}

/// cryptsetup's `--timeout`, and its `--verbose`.
#[test]
fn a_passphrase_that_nobody_enters_ends_the_command_in_time() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let session = at_a_terminal(
        &image.place,
        "cryptsetup -v --timeout 1 open --test-passphrase disk.img",
        &steps(&[("wait", "Enter passphrase"), ("wait", "Command failed")]),
    );
    assert_eq!((session.code, session.echo), (1, true), "{}", session.shown);
    for said in [
        "within the time of --timeout",
        "code -1 (wrong or missing parameters)",
    ] {
        assert!(session.shown.contains(said), "{}", session.shown);
    }
}

#[test]
fn a_wrong_passphrase_may_be_tried_three_times() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let wrong = [("wait", "Enter passphrase"), ("type", "wrong\\r")];
    let right = [
        ("wait", "Enter passphrase"),
        ("type", &format!("{PASSPHRASE}\\r")),
    ];
    let session = at_a_terminal(
        &image.place,
        "open disk.img secret",
        &steps(&wrong.repeat(3)),
    );
    assert_eq!((session.code, session.echo), (2, true), "{}", session.shown);
    let refusals = session
        .shown
        .matches("no key available with this passphrase");
    assert_eq!(refusals.count(), 3, "{}", session.shown);
    assert_eq!(image.place.scrim(["list"]), "");

    let third = [wrong, wrong, right].concat();
    let session = at_a_terminal(&image.place, "test-passphrase disk.img", &steps(&third));
    assert_eq!((session.code, session.echo), (0, true), "{}", session.shown);
    let once = "test-passphrase --tries 1 disk.img";
    let session = at_a_terminal(&image.place, once, &steps(&wrong));
    assert_eq!(session.code, 2, "{}", session.shown);
}

#[test]
fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    for line in [
        "open disk.img secret",
        "test-passphrase disk.img",
        "format -q disk.img",
    ] {
        // cryptsetup has code 1 for both; a script tells Ctrl-C from a wrong parameter.
        for (keys, code, said) in [
            ("half\\x03", 130, "interrupted; nothing was changed"),
            ("\\x04", 1, "no passphrase was entered; nothing was changed"),
        ] {
            let asked = [("wait", "Enter passphrase"), ("type", keys)];
            let session = at_a_terminal(&image.place, line, &steps(&asked));
            let shown = &session.shown;
            assert_eq!((session.code, session.echo), (code, true), "{shown}");
            assert!(shown.contains(said) && !shown.contains("half"), "{shown}");
            // Not asked again.
            assert_eq!(shown.matches("Enter passphrase").count(), 1, "{shown}");
        }
    }
    assert_eq!(image.place.scrim(["list"]), "");
    assert!(image.scrim_accepts("key"), "the volume is as it was");
}

/// The prompts have the words of cryptsetup.
#[test]
fn keys_are_asked_for_one_after_the_other() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(LUKS1[0]);
    let place = &image.place;
    place.write("third", "third");
    for (line, asked) in [
        (
            "add-key disk.img",
            [
                ("Enter any existing passphrase: ", PASSPHRASE),
                ("Enter new passphrase for key slot: ", OTHER),
                ("Verify passphrase: ", OTHER),
            ]
            .as_slice(),
        ),
        (
            "change-key disk.img",
            &[
                ("Enter passphrase to be changed: ", "mistyped"),
                ("Enter passphrase to be changed: ", OTHER),
                ("Enter new passphrase: ", "third"),
                ("Verify passphrase: ", "third"),
            ],
        ),
        (
            "convert-key disk.img",
            &[("Enter passphrase for keyslot to be converted: ", "third")],
        ),
        (
            "kill-slot disk.img 0",
            &[("Enter any remaining passphrase: ", "third")],
        ),
    ] {
        let cost = match line.starts_with("kill") {
            true => "",
            false => "--pbkdf-force-iterations 1000",
        };
        let typed: String = asked
            .iter()
            .map(|(question, answer)| format!("wait {question}\ntype {answer}\\r\n"))
            .collect();
        let session = at_a_terminal(place, &format!("{line} {cost}"), &typed);
        let shown = &session.shown;
        assert_eq!((session.code, session.echo), (0, true), "{line}: {shown}");
        assert!(!shown.contains("third"), "{shown}");
    }
    assert!(!image.scrim_accepts("key") && image.scrim_accepts("third"));
    assert!(!image.scrim_accepts("other"));
}

#[test]
fn the_last_key_goes_only_after_an_uppercase_yes() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let uuid = place.scrim(["luksUUID", "disk.img"]);
    let warned = |line: &str, typed: &str, code: i32| {
        let session = at_a_terminal(place, line, typed);
        let shown = &session.shown;
        assert_eq!(
            (session.code, session.echo),
            (code, true),
            "{line}: {shown}"
        );
        assert!(shown.contains(uuid.trim()), "{shown}");
        assert!(shown.contains("all its data will be lost"), "{shown}");
    };
    let passphrase = format!("wait passphrase\ntype {PASSPHRASE}\\r\n");
    for no in ["yes", "no", "YES!"] {
        let no = format!("wait capital letters): \ntype {no}\\r\n");
        warned("kill-slot disk.img 0", &no, 1);
        warned("remove-key disk.img", &format!("{passphrase}{no}"), 1);
        warned("erase disk.img", &no, 1);
        assert!(image.scrim_accepts("key"));
    }
    let yes = "wait capital letters): \ntype YES\\r\n";
    warned("kill-slot disk.img 0", &format!("{yes}{passphrase}"), 0);
    assert!(!place.scrim(["dump", "disk.img"]).contains("0: luks2"));
    let image = Image::made_by_scrim(USUAL);
    let session = at_a_terminal(&image.place, "erase disk.img", yes);
    assert_eq!(session.code, 0, "{}", session.shown);
    assert!(!image.place.scrim(["dump", "disk.img"]).contains("0: luks2"));
}

/// A header that is put back is compared with the one that is there before anybody says yes.
#[test]
fn a_restore_shows_what_it_would_change_and_asks() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(LUKS1[0]);
    let place = &image.place;
    place.scrim("header-backup disk.img --header-backup-file backup".split(' '));
    let change = "change-key --pbkdf-force-iterations 1000 -d key disk.img other";
    place.scrim(change.split(' '));
    let line = "header-restore disk.img --header-backup-file backup";
    for (answer, code) in [("yes", 1), ("YES", 0)] {
        let typed = format!("wait capital letters): \ntype {answer}\\r\n");
        let session = at_a_terminal(place, line, &typed);
        let shown = &session.shown;
        assert_eq!(session.code, code, "{shown}");
        assert!(shown.contains("no longer will"), "{shown}");
        assert!(shown.contains("becomes valid again"), "{shown}");
        assert_eq!(image.scrim_accepts("key"), code == 0);
        assert_eq!(image.scrim_accepts("other"), code != 0);
    }
}

#[test]
fn a_measurement_writes_only_where_somebody_types_so() {
    if !have(&[PYTHON]) {
        return;
    }
    let place = Place::new();
    let data = noise(1 << 20, 3);
    place.write("disk.img", &data);
    let line = "bench paths disk.img --write --only in-process --rounds 1 --seconds 0.001";
    for (answer, code) in [("yes\\r", 1), ("YES\\r", 0)] {
        assert_same(
            &std::fs::read(place.path("disk.img")).unwrap(),
            &data,
            answer,
        );
        let answered = [("wait", "capital letters): "), ("type", answer)];
        let session = at_a_terminal(&place, line, &steps(&answered));
        assert_eq!(session.code, code, "{}", session.shown);
        assert!(session.shown.contains("overwrite data on disk.img"));
    }
    assert!(std::fs::read(place.path("disk.img")).unwrap() != data);
}
