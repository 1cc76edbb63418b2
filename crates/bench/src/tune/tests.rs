use std::io;
use std::time::Duration;

use super::*;
use crate::Machine;

const READ: Load = Load {
    direction: Direction::Read,
    bytes: 4096,
    depth: 1,
    sequential: false,
};
const WRITE: Load = Load {
    direction: Direction::Write,
    bytes: 1 << 20,
    depth: 4,
    sequential: true,
};

/// A volume that has rates of its own for each setting.
struct Pretended {
    setting: usize,
    applied: Vec<usize>,
}

impl Tunable for Pretended {
    type Error = io::Error;

    fn failed(_: &Load, error: io::Error) -> io::Error {
        error
    }

    fn apply(&mut self, setting: usize) -> io::Result<()> {
        self.setting = setting;
        self.applied.push(setting);
        Ok(())
    }
}

/// Rates in the order in which the loads are run.
struct Rates<F>(F, usize);

impl<F: FnMut(usize, &Load) -> f64> Requests for Rates<F> {
    fn run(&mut self, load: &Load, _: Duration) -> io::Result<f64> {
        self.1 += 1;
        Ok((self.0)(self.1, load))
    }
}

fn setting(name: &str, directions: &[Direction]) -> Setting {
    Setting {
        name: name.to_owned(),
        directions: directions.to_vec(),
    }
}

fn plan(loads: &[Load]) -> TunePlan {
    TunePlan {
        settings: vec![
            setting("none", &[Direction::Read, Direction::Write]),
            setting("for_reads", &[Direction::Read]),
            setting("for_writes", &[Direction::Write]),
        ],
        loads: loads.to_vec(),
        slice: Duration::ZERO,
    }
}

/// Measures with rates that depend on the turn.
fn outcome(loads: &[Load], rate: impl Fn(usize, &Load) -> f64, end_after: usize) -> TuneOutcome {
    let mut volume = Pretended {
        setting: 0,
        applied: Vec::new(),
    };
    let mut study = Study::new(Machine::default(), 16);
    let mut requests = Rates(|call, load: &Load| rate(call, load), 0);
    let mut looks = 0;
    let measured = measure(
        &mut volume,
        &mut requests,
        &plan(loads),
        &mut study,
        &mut |_| {
            looks += 1;
            match looks > end_after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
    );
    assert!(!volume.applied.is_empty() || end_after == 0);
    measured.unwrap()
}

/// In a round of one load two settings are measured: in even rounds the base is first, and it goes twice as slowly.
fn doubled(call: usize, _: &Load) -> f64 {
    let (round, place) = ((call - 1) / 2, (call - 1) % 2);
    let first = contender_of(round, place);
    if first == 0 { 100.0 } else { 200.0 }
}

/// Which of two settings runs at a place of a round.
fn contender_of(round: usize, place: usize) -> usize {
    let turns: Vec<usize> = turns(16, 1, 3)
        .filter(|turn| turn.round == round && turn.contender != 2)
        .map(|turn| turn.contender)
        .collect();
    turns[place]
}

#[test]
fn a_setting_that_helps_is_advised_for_its_direction() {
    let outcome = outcome(&[READ], doubled, usize::MAX);
    let cells = &outcome.rows[0].1;
    assert_eq!(cells[1].unwrap().effect, Effect::Helps);
    assert!((cells[1].unwrap().ratio - 2.0).abs() < 1e-9);
    // It does not touch reads.
    assert_eq!(cells[2], None);
    let advice = outcome.advice(Use::Database);
    assert_eq!(advice.settings, [1]);
    assert_eq!(advice.not_measured, [Direction::Write]);
    // No load of that use was measured.
    let files = outcome.advice(Use::Files);
    assert_eq!(files.settings, [0; 0]);
    assert_eq!(files.not_measured, [Direction::Read, Direction::Write]);
}

#[test]
fn no_difference_is_told_from_noise() {
    let same = outcome(&[READ, WRITE], |_, _| 100.0, usize::MAX);
    let advice = same.advice(Use::Mixed);
    assert_eq!(advice, Advice::default());
    assert_eq!(same.rows[1].1[2].unwrap().effect, Effect::NoDifference);
    let noise = outcome(
        &[READ],
        |call, _| if call % 3 == 0 { 40.0 } else { 100.0 },
        usize::MAX,
    );
    assert_eq!(noise.rows[0].1[1].unwrap().effect, Effect::CannotTell);
    let advice = noise.advice(Use::Database);
    assert_eq!(
        (advice.settings, advice.cannot_tell),
        (vec![], vec![Direction::Read])
    );
}

#[test]
fn what_most_rounds_agree_on_is_no_effect_before_almost_all_do() {
    // In 4 of 16 rounds the second setting is the slower one; the interval excludes 1 all the same.
    let mostly = |call: usize, _: &Load| {
        let (round, place) = ((call - 1) / 2, (call - 1) % 2);
        match (contender_of(round, place), round % 4) {
            (0, _) => 100.0,
            (_, 0) => 99.0,
            _ => 110.0,
        }
    };
    let cell = outcome(&[READ], mostly, usize::MAX).rows[0].1[1].unwrap();
    assert!(cell.interval.low > 1.0, "{cell:?}");
    assert_eq!(cell.effect, Effect::CannotTell);
}

#[test]
fn an_interruption_keeps_whole_rounds() {
    // Two turns of a round, and one of the next.
    let outcome = outcome(&[READ], doubled, 3);
    let cell = outcome.rows[0].1[1].unwrap();
    assert!((cell.ratio - 2.0).abs() < 1e-9);
    let none = self::outcome(&[READ], doubled, 0);
    assert_eq!(none.rows[0].1, [None, None, None]);
}

#[test]
fn loads_have_names_of_their_own() {
    assert_eq!(READ.name(), "read_4k_qd1");
    assert_eq!(WRITE.name(), "write_1m_qd4");
}

#[test]
fn requests_reach_a_file() {
    let folder = crate::Folder::make(&std::env::temp_dir(), "scrim-tune").unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let open = |path| {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    };
    let mut target = FileTarget::new(open(&path), 1 << 20, Some((open(&path), 1 << 20)));
    for load in [READ, WRITE] {
        match target.run(&load, Duration::from_millis(2)) {
            Ok(rate) => assert!(rate > 0.0),
            Err(error) => return eprintln!("skipped: io_uring is not allowed here: {error}"),
        }
    }
    assert!(std::fs::read(&path).unwrap().iter().any(|byte| *byte != 0));
    let mut small = FileTarget::new(open(&path), 512, None);
    assert!(small.run(&READ, Duration::ZERO).is_err());
    assert!(small.run(&WRITE, Duration::ZERO).is_err());
}
