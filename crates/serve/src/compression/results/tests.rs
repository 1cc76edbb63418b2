use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use super::*;

const TAG: &[u8] = b"\"1\"";

fn key(path: &str) -> Key {
    Key {
        site: 1,
        path: path.as_bytes().into(),
        coding: Coding::Gzip,
    }
}

fn client(number: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, number]))
}

/// Looks for a file of 1000 bytes.
fn look(results: &Arc<Results>, path: &str, number: u8) -> Lookup {
    results.look(&key(path), TAG, 1000, false, client(number))
}

/// Compresses a file to 100 bytes; returns whether that was possible.
fn compress(results: &Arc<Results>, path: &str, number: u8) -> bool {
    match look(results, path, number) {
        Lookup::Begin(job) => {
            job.finish(Outcome::Smaller(vec![7; 100]));
            true
        }
        Lookup::Found(_) => true,
        Lookup::Running(_) | Lookup::Unavailable => false,
    }
}

fn has(results: &Results, path: &str) -> bool {
    results.lock().entries.contains_key(&key(path))
}

/// Room for this number of results, and for one that is being made.
fn results(count: usize) -> Arc<Results> {
    Arc::new(Results::new(count * (OVERHEAD + 100) + 900, 4))
}

#[tokio::test]
async fn a_file_is_compressed_once_while_others_wait() {
    let results = results(10);
    let Lookup::Begin(job) = look(&results, "a", 1) else {
        panic!("nothing is there");
    };
    let Lookup::Running(mut other) = look(&results, "a", 2) else {
        panic!("it is being made");
    };
    let changed = results.look(&key("a"), b"\"2\"", 1000, false, client(2));
    assert!(matches!(changed, Lookup::Unavailable), "another content");
    job.finish(Outcome::Smaller(vec![7; 100]));
    assert!(other.changed().await.is_err());
    assert_eq!(results.find(&key("a"), TAG).unwrap(), [7; 100].as_slice());
    assert!(results.find(&key("a"), b"\"2\"").is_none());
    // A changed file takes the place of its former content.
    let changed = results.look(&key("a"), b"\"2\"", 1000, false, client(2));
    assert!(matches!(changed, Lookup::Begin(_)));
}

/// Sees how many compressions of its address count when it is woken.
struct Sleeper {
    owner: Arc<Owner>,
    seen: AtomicUsize,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.seen.store(self.owner.running.get(), Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_has_its_answer_may_request_the_next_one() {
    let results = results(10);
    let Lookup::Begin(job) = look(&results, "a", 1) else {
        panic!("nothing is there");
    };
    let sleeper = Arc::new(Sleeper {
        owner: Arc::clone(&job.owner),
        seen: AtomicUsize::new(usize::MAX),
    });
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut done = job.subscribe().unwrap();
    let mut answer = pin!(done.changed());
    let waits = answer.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(waits.is_pending());
    job.finish(Outcome::Smaller(vec![7; 100]));
    assert_eq!(sleeper.seen.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_compression_that_fails_leaves_nothing_and_wakes_those_who_wait() {
    let results = results(10);
    for outcome in [None, Some(Outcome::Failed)] {
        let Lookup::Begin(job) = look(&results, "a", 1) else {
            panic!("nothing is there");
        };
        let Lookup::Running(mut other) = look(&results, "a", 2) else {
            panic!("it is being made");
        };
        match outcome {
            None => drop(job),
            Some(outcome) => job.finish(outcome),
        }
        assert!(other.changed().await.is_err());
        assert_eq!(results.held.get(), 0);
    }
}

#[test]
fn a_file_that_does_not_shrink_is_tried_once() {
    let results = results(10);
    let Lookup::Begin(job) = look(&results, "a", 1) else {
        panic!("nothing is there");
    };
    job.finish(Outcome::NotSmaller);
    assert!(matches!(look(&results, "a", 1), Lookup::Unavailable));
    assert_eq!(results.held.get(), OVERHEAD);
}

#[test]
fn the_memory_is_limited_and_the_least_recently_used_result_goes_first() {
    let results = results(8);
    for number in 0..100 {
        // Used again and again.
        assert!(compress(&results, "favourite", 1));
        assert!(compress(&results, &format!("{number}"), 1));
        assert!(
            results.held.get() <= results.most / 2,
            "half for one address"
        );
    }
    assert!(has(&results, "favourite") && has(&results, "99"));
    assert!(!has(&results, "90"));
    results.clear();
    assert_eq!(results.held.get(), 0);
}

#[test]
fn a_greedy_address_drops_its_own_results_first() {
    let results = results(8);
    assert!(compress(&results, "mine", 1));
    for number in 0..100 {
        assert!(compress(&results, &format!("{number}"), 2));
        assert!(compress(&results, &format!("{number} too"), 3));
        assert!(compress(&results, &format!("{number} as well"), 4));
    }
    assert!(has(&results, "mine"));
    assert!(results.held.get() <= results.most);
}

#[test]
fn content_that_a_client_receives_counts_until_it_has_it() {
    let results = results(5);
    assert!(compress(&results, "a", 1) && compress(&results, "b", 1));
    let a = results.find(&key("a"), TAG).unwrap();
    let b = results.find(&key("b"), TAG).unwrap();
    assert!(!compress(&results, "c", 1), "its half is on its way");
    assert!(
        compress(&results, "c", 2),
        "another address has its own half"
    );
    results.clear();
    assert_eq!(results.held.get(), 2 * (OVERHEAD + 100));
    drop((a, b));
    assert_eq!(results.held.get(), 0);
    assert!(compress(&results, "c", 1));
}

#[test]
fn an_address_has_half_of_the_free_threads() {
    let results = results(100);
    let jobs = |number: u8| -> Vec<_> {
        (0..10)
            .map(|file| look(&results, &format!("{number} {file}"), number))
            .filter(|found| matches!(found, Lookup::Begin(_)))
            .collect()
    };
    let first = jobs(1);
    assert_eq!(first.len(), 2);
    let second = jobs(2);
    assert_eq!(second.len(), 1);
    assert_eq!(jobs(3).len(), 1, "and they end at once");
    drop(first);
    assert_eq!(jobs(1).len(), 2);
}

#[test]
fn a_file_that_is_too_long_for_the_memory_is_not_compressed() {
    let results = results(8);
    let long = results.look(&key("a"), TAG, usize::MAX, false, client(1));
    assert!(matches!(long, Lookup::Unavailable));
}
