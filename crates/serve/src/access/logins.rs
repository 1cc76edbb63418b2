//! Logins of all users: passwords that were found right, and limits on the addresses that try wrong ones.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use zeroize::Zeroize;

use super::credentials::Credentials;
use super::rate::{Meter, Rate};
use super::recent::Recent;
use super::turns::{RUNNING_MAX, Turns};
use super::users::Users;
use crate::http::Authorization;

/// Threads that hash passwords, besides those for other blocking work.
pub(crate) const THREADS: usize = RUNNING_MAX;

/// Time for which a right password is remembered, so that a browser's many requests cost one hash.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Time for which the last wrong password of an address is remembered, so that a browser that sends it with many requests
/// at once has one failure.
const WRONG_REMEMBERED: Duration = Duration::from_secs(10);
/// Failures of an address that may come at once, and the time in which one more is allowed.
const FAILURES: u32 = 10;
const FAILURE_INTERVAL: Duration = Duration::from_secs(6);
/// Longest time that a request waits for its turn, and before that for the logins that its address has in flight.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit on the requests of one address that wait for its logins in flight.
const WAITING_MAX: usize = 32;
/// Limits on what is remembered, each for one of two generations.
const RIGHT_MAX: usize = 4096;
const ADDRESSES_MAX: usize = 8192;

/// State of all logins of a server.
pub(crate) struct Logins {
    /// Key of the fingerprints, which lives as long as this process.
    key: hmac::Key,
    failures: Rate,
    state: Mutex<State>,
    turns: Turns,
}

struct State {
    in_flight: HashMap<IpAddr, InFlight>,
    /// Users by the fingerprints of right passwords, until some time.
    right: Recent<Fingerprint, (Arc<str>, Instant)>,
    attempts: Recent<IpAddr, Attempts>,
    /// Time of the last ageing of `right`.
    aged: Instant,
}

/// Logins of an address whose passwords are being hashed, or wait for that.
#[derive(Default)]
struct InFlight {
    results: HashMap<Fingerprint, watch::Receiver<Option<Login>>>,
    /// Tells the requests that wait for a failure of the address when one of these logins ends.
    ended: watch::Sender<()>,
}

/// Failures of an address.
#[derive(Default)]
struct Attempts {
    /// Wrong passwords. A login in flight is counted too, until it is found right.
    meter: Meter,
    last_wrong: Option<(Fingerprint, Instant)>,
}

/// A keyed hash of users, a name and a password.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Fingerprint([u8; 32]);

/// A login in flight. When this is dropped, its result is remembered and reported.
struct Attempt {
    logins: Arc<Logins>,
    users: Arc<Users>,
    client: IpAddr,
    credentials: Credentials,
    fingerprint: Fingerprint,
    /// Latest time for its turn.
    deadline: tokio::time::Instant,
    result: Login,
    sender: watch::Sender<Option<Login>>,
}

/// Beginning of a login.
enum Begun {
    /// The result is known.
    Known(Login),
    /// Another request of the same address brought the same password, and its result is this one's.
    InFlight(watch::Receiver<Option<Login>>),
    /// All failures of the address that are left are those of its logins in flight. The caller begins again when one of
    /// them has ended.
    Later(watch::Receiver<()>),
    /// The caller has the password hashed.
    Here(watch::Sender<Option<Login>>, watch::Receiver<Option<Login>>),
}

/// Result of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Login {
    /// The password is that of this user.
    Right(Arc<str>),
    /// There are no credentials, or wrong ones.
    Wrong,
    /// The address had too many wrong ones, and may try again after this time.
    TooMany(Duration),
    /// There are too many logins at this time, or too little memory.
    Busy,
}

impl Logins {
    /// Makes the state of a server without logins; `None` if the system has no random numbers.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Self {
            key,
            failures: Rate::new(FAILURE_INTERVAL, FAILURES),
            state: Mutex::new(State {
                in_flight: HashMap::new(),
                right: Recent::new(RIGHT_MAX),
                attempts: Recent::new(ADDRESSES_MAX),
                aged: Instant::now(),
            }),
            turns: Turns::default(),
        })
    }

    /// Checks the credentials of a request from `client`, an address as [`crate::admission::client`] maps it.
    pub(crate) async fn check(
        self: &Arc<Self>,
        users: &Arc<Users>,
        client: IpAddr,
        authorization: Option<Authorization<'_>>,
    ) -> Login {
        let Some(credentials) = authorization.and_then(Credentials::decode) else {
            return Login::Wrong;
        };
        let fingerprint = self.fingerprint(users, &credentials);
        let deadline = tokio::time::Instant::now() + TURN_TIMEOUT;
        let mut result = loop {
            let begun = self.lock().begin(&fingerprint, client, &self.failures);
            match begun {
                Begun::Known(login) => return login,
                Begun::InFlight(result) => break result,
                Begun::Later(mut ended) => {
                    // An error of the channel says that the last login has ended.
                    if timeout_at(deadline, ended.changed()).await.is_err() {
                        return Login::Busy;
                    }
                }
                Begun::Here(sender, result) => {
                    let attempt = Attempt {
                        logins: Arc::clone(self),
                        users: Arc::clone(users),
                        client,
                        fingerprint,
                        credentials,
                        deadline,
                        result: Login::Busy,
                        sender,
                    };
                    // A task of its own, since other requests wait for the result too, and this one's client may go
                    // away.
                    drop(tokio::spawn(attempt.run()));
                    break result;
                }
            }
        };
        let login = result.wait_for(Option::is_some).await;
        login
            .ok()
            .and_then(|login| login.clone())
            .unwrap_or(Login::Busy)
    }

    /// Forgets passwords that were remembered long enough.
    pub(crate) fn sweep(&self) {
        let mut state = self.lock();
        if state.aged.elapsed() >= REMEMBERED {
            state.right.age();
            state.attempts.age();
            state.aged = Instant::now();
        }
    }

    fn fingerprint(&self, users: &Users, credentials: &Credentials) -> Fingerprint {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&users.id().to_le_bytes());
        // The name has no colon.
        context.update(credentials.name());
        context.update(b":");
        context.update(credentials.password());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.sign().as_ref());
        Fingerprint(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins a login, unless its result is known or in flight. The order matters: a guess is compared with remembered
    /// passwords only if the address has a failure left, and takes that failure if it fits none. Otherwise guesses that
    /// come at once, or after too many failures, would cost nothing. For the same reason a guess waits if only logins in
    /// flight stand in its way: one of them may be right and give its failure back.
    fn begin(&mut self, fingerprint: &Fingerprint, client: IpAddr, failures: &Rate) -> Begun {
        let now = Instant::now();
        let in_flight = self.in_flight.get(&client);
        if let Some(result) = in_flight.and_then(|logins| logins.results.get(fingerprint)) {
            return Begun::InFlight(result.clone());
        }
        let attempts = self.attempts.get_or_default(client);
        if let Some((wrong, until)) = &attempts.last_wrong
            && wrong == fingerprint
            && now < *until
        {
            return Begun::Known(Login::Wrong);
        }
        if let Err(wait) = attempts.meter.check(failures, now) {
            return match in_flight.map(|logins| &logins.ended) {
                None => Begun::Known(Login::TooMany(wait)),
                Some(ended) if ended.receiver_count() >= WAITING_MAX => Begun::Known(Login::Busy),
                Some(ended) => Begun::Later(ended.subscribe()),
            };
        }
        if let Some((name, until)) = self.right.get(fingerprint)
            && now < *until
        {
            return Begun::Known(Login::Right(Arc::clone(name)));
        }
        attempts.meter.count(failures, now);
        let (sender, result) = watch::channel(None);
        let logins = self.in_flight.entry(client).or_default();
        logins.results.insert(fingerprint.clone(), result.clone());
        Begun::Here(sender, result)
    }

    /// Ends a login that was in flight, and remembers its result.
    fn finish(
        &mut self,
        fingerprint: &Fingerprint,
        client: IpAddr,
        login: &Login,
        failures: &Rate,
    ) {
        let now = Instant::now();
        let attempts = self.attempts.get_or_default(client);
        match login {
            Login::Wrong => {
                attempts.last_wrong = Some((fingerprint.clone(), now + WRONG_REMEMBERED));
            }
            Login::Right(name) => {
                attempts.meter.uncount(failures);
                let known = (Arc::clone(name), now + REMEMBERED);
                self.right.insert(fingerprint.clone(), known);
            }
            Login::TooMany(_) | Login::Busy => attempts.meter.uncount(failures),
        }
        if let Some(logins) = self.in_flight.get_mut(&client) {
            logins.results.remove(fingerprint);
            logins.ended.send_replace(());
            if logins.results.is_empty() {
                self.in_flight.remove(&client);
            }
        }
    }
}

impl Attempt {
    /// Waits for a turn and hashes the password.
    async fn run(mut self) {
        let turn = self.logins.turns.queue(self.client);
        let turn = match turn {
            Some(turn) => timeout_at(self.deadline, turn).await,
            None => return,
        };
        let Ok(Ok(turn)) = turn else {
            return;
        };
        let verify = move || {
            self.verify();
            // Before the result is reported, so that the next request finds a turn.
            drop(turn);
        };
        // After a panic, the result stays `Busy`.
        let _ = spawn_blocking(verify).await;
    }

    fn verify(&mut self) {
        let (name, password) = (self.credentials.name(), self.credentials.password());
        self.result = match self.users.verify(name, password) {
            Ok(Some(name)) => Login::Right(name),
            Ok(None) => Login::Wrong,
            Err(_) => Login::Busy,
        };
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let failures = &self.logins.failures;
        let mut state = self.logins.lock();
        state.finish(&self.fingerprint, self.client, &self.result, failures);
        drop(state);
        self.sender.send_replace(Some(self.result.clone()));
    }
}

impl Drop for Fingerprint {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::super::users::tests::parse;
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);
    /// Credentials `ann:password` and `ann:wrong`.
    const RIGHT: &str = "Basic YW5uOnBhc3N3b3Jk";
    const WRONG: &str = "Basic YW5uOndyb25n";

    struct Fixture {
        logins: Arc<Logins>,
        users: Arc<Users>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                logins: Arc::new(Logins::new().expect("random numbers")),
                users: Arc::new(parse("ann:HASH").expect("users")),
            }
        }

        async fn check(&self, client: IpAddr, value: &str) -> Login {
            let authorization = Authorization::new(value.as_bytes());
            let check = self.logins.check(&self.users, client, Some(authorization));
            check.await
        }

        fn failures(&self, client: IpAddr) -> u32 {
            let mut state = self.logins.lock();
            let mut meter = state.attempts.get_or_default(client).meter;
            let mut left = 0;
            while meter.check(&self.logins.failures, Instant::now()).is_ok() {
                meter.count(&self.logins.failures, Instant::now());
                left += 1;
            }
            FAILURES - left
        }
    }

    #[tokio::test]
    async fn a_right_password_is_remembered_and_costs_no_failure() {
        let fixture = Fixture::new();
        let right = Login::Right("ann".into());
        for _ in 0..3 * FAILURES {
            assert_eq!(fixture.check(CLIENT, RIGHT).await, right);
        }
        assert_eq!(fixture.failures(CLIENT), 0);
        let fingerprints = |fixture: &Fixture| {
            let decode = |value: &'static str| {
                Credentials::decode(Authorization::new(value.as_bytes())).expect("credentials")
            };
            [RIGHT, WRONG].map(|value| fixture.logins.fingerprint(&fixture.users, &decode(value)))
        };
        let known =
            fingerprints(&fixture).map(|print| fixture.logins.lock().right.get(&print).is_some());
        assert_eq!(known, [true, false]);
        // Other users have nothing to do with it, such as those of the same file that was read again.
        let users = Arc::new(parse("ann:HASH").expect("users"));
        let other = Fixture { users, ..fixture };
        assert!(
            fingerprints(&other)
                .iter()
                .all(|print| other.logins.lock().right.get(print).is_none())
        );
    }

    #[tokio::test]
    async fn an_address_with_failures_is_limited_and_others_are_not() {
        let fixture = Fixture::new();
        for number in 0..FAILURES {
            use base64::Engine;
            let guess = format!("ann:guess{number}");
            let guess = base64::engine::general_purpose::STANDARD.encode(guess);
            let login = fixture.check(CLIENT, &format!("Basic {guess}")).await;
            assert_eq!(login, Login::Wrong);
        }
        for value in [WRONG, RIGHT] {
            let login = fixture.check(CLIENT, value).await;
            assert!(
                matches!(login, Login::TooMany(wait) if wait <= FAILURE_INTERVAL),
                "{login:?}"
            );
        }
        assert_eq!(
            fixture.check(OTHER, RIGHT).await,
            Login::Right("ann".into())
        );
        // Not even a remembered password is told from others, or guesses would be free.
        assert!(matches!(
            fixture.check(CLIENT, RIGHT).await,
            Login::TooMany(_)
        ));
        assert_eq!(
            fixture.logins.check(&fixture.users, OTHER, None).await,
            Login::Wrong
        );
    }

    #[tokio::test]
    async fn the_same_password_in_many_requests_is_hashed_once() {
        let fixture = Arc::new(Fixture::new());
        for (value, wanted, failures) in [
            (RIGHT, Login::Right("ann".into()), 0),
            (WRONG, Login::Wrong, 1),
        ] {
            let requests: Vec<_> = (0..50)
                .map(|_| {
                    let fixture = Arc::clone(&fixture);
                    tokio::spawn(async move { fixture.check(CLIENT, value).await })
                })
                .collect();
            for request in requests {
                assert_eq!(request.await.expect("a login"), wanted);
            }
            assert_eq!(fixture.failures(CLIENT), failures);
        }
    }

    /// Calls `begin` for a password that is known by one byte.
    fn begin(fixture: &Fixture, password: u8) -> Begun {
        let mut state = fixture.logins.lock();
        state.begin(
            &Fingerprint([password; 32]),
            CLIENT,
            &fixture.logins.failures,
        )
    }

    fn finish(fixture: &Fixture, password: u8, login: &Login) {
        let mut state = fixture.logins.lock();
        let fingerprint = Fingerprint([password; 32]);
        state.finish(&fingerprint, CLIENT, login, &fixture.logins.failures);
    }

    #[tokio::test]
    async fn guesses_that_come_at_once_are_limited_before_any_is_compared() {
        let fixture = Fixture::new();
        // Remembered, so that a guess that is compared with it would be told at once.
        let known = Login::Right("ann".into());
        let of_other = begin(&fixture, 0);
        finish(&fixture, 0, &known);
        let burst = 1..=u8::try_from(FAILURES).expect("a small number");
        for guess in burst.clone() {
            assert!(matches!(begin(&fixture, guess), Begun::Here(..)), "{guess}");
        }
        let waiting: Vec<_> = (100..200).map(|guess| begin(&fixture, guess)).collect();
        let is_waiting = |begun: &&Begun| matches!(begun, Begun::Later(_));
        assert_eq!(waiting.iter().filter(is_waiting).count(), WAITING_MAX);
        let mut refused = waiting.iter().skip(WAITING_MAX);
        assert!(refused.all(|begun| matches!(begun, Begun::Known(Login::Busy))));
        drop((waiting, of_other));
        assert!(matches!(begin(&fixture, 0), Begun::Later(_)));
        // A guess that turns out wrong makes no room for another one.
        for guess in burst {
            assert!(matches!(begin(&fixture, 100), Begun::Later(_)), "{guess}");
            finish(&fixture, guess, &Login::Wrong);
        }
        let too_many = |begun| matches!(begun, Begun::Known(Login::TooMany(_)));
        assert!(too_many(begin(&fixture, 100)) && too_many(begin(&fixture, 0)));
        assert!(fixture.logins.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn a_login_that_was_right_makes_room_for_the_next_one() {
        let fixture = Fixture::new();
        for password in 0..100 {
            let mut waiting = None;
            if u32::from(password) >= FAILURES {
                let Begun::Later(mut ended) = begin(&fixture, password) else {
                    panic!("{password} should wait");
                };
                let before = password - u8::try_from(FAILURES).expect("a small number");
                finish(&fixture, before, &Login::Right("ann".into()));
                waiting = Some(ended.changed().await);
            }
            assert!(waiting.is_none_or(|ended| ended.is_ok()));
            assert!(matches!(begin(&fixture, password), Begun::Here(..)));
        }
    }

    #[tokio::test]
    async fn many_users_of_one_address_may_log_in_at_once() {
        use base64::Engine;
        const USERS: u32 = 3 * FAILURES;
        let lines: String = (0..USERS)
            .map(|number| format!("user{number}:HASH\n"))
            .collect();
        let fixture = Arc::new(Fixture {
            users: Arc::new(parse(&lines).expect("users")),
            ..Fixture::new()
        });
        let requests: Vec<_> = (0..USERS)
            .map(|number| {
                let fixture = Arc::clone(&fixture);
                let said = format!("user{number}:password");
                let said = base64::engine::general_purpose::STANDARD.encode(said);
                tokio::spawn(async move { fixture.check(CLIENT, &format!("Basic {said}")).await })
            })
            .collect();
        for (number, request) in requests.into_iter().enumerate() {
            let user = format!("user{number}");
            assert_eq!(request.await.expect("a login"), Login::Right(user.into()));
        }
        assert_eq!(fixture.failures(CLIENT), 0);
        assert!(fixture.logins.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn a_client_that_goes_away_has_its_failure() {
        let fixture = Fixture::new();
        // Dropped at its first wait.
        let _ = timeout(Duration::ZERO, fixture.check(CLIENT, WRONG)).await;
        assert_eq!(fixture.check(CLIENT, WRONG).await, Login::Wrong);
        assert_eq!(fixture.failures(CLIENT), 1);
        assert!(fixture.logins.lock().in_flight.is_empty());
    }
}
