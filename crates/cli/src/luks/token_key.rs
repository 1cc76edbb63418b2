//! Volume keys by tokens, with the help of the programs that the tokens are for.
//!
//! The token of type `luks2-keyring` names a key in the kernel's keyrings, which is read here. Plugins of other tokens
//! (TPM2, FIDO2, PKCS#11) are libraries that call into libcryptsetup. None of them is loaded
//! here: the installed cryptsetup has its plugin open a *copy* of the header in memory and adds a key slot to the copy,
//! whose passphrase is random and known here. That slot gives the volume key, which must be that of the header itself. So
//! a program that hangs, dies or lies costs a time limit and an error. Clevis has no plugin; `clevis decrypt` gets the
//! token's JWE and returns the passphrase.
//!
//! A header of unknown origin could have programs run and servers asked: this is done only if options ask for it. A key
//! in a keyring is only read, so that one is tried without being asked for, as cryptsetup does.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use scrim_backend::{Backend, MemoryBackend};
use scrim_foreign::Foreign;
use scrim_luks::{Token, VolumeKey};
use scrim_sys::memory::SecretBytes;
use scrim_sys::program::find;
use scrim_volume::{LuksDevice, LuksError};

use crate::args::TokenKeyArgs;
use crate::error::{CliError, Exit};
use crate::luks::derivation::{CostLimits, Guard};
use crate::luks::kernel_key;
use crate::luks::key_source::read_up_to;
use crate::process::child::wait_unless;
use crate::process::program::Said;
use crate::terminal::note;

/// Bytes of the random passphrase of the slot in the copy.
const PASSPHRASE: usize = 32;
/// Most bytes of a passphrase that Clevis returns.
const CLEVIS_MAX: usize = 8 << 10;
/// Time for the output of a program that has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// The type of Clevis' tokens.
const CLEVIS: &str = "clevis";
/// The type of tokens that name a key in a keyring.
const KEYRING: &str = "luks2-keyring";

/// A header whose token is to open it.
pub(crate) struct Tokens<'a> {
    pub(crate) args: &'a TokenKeyArgs,
    pub(crate) luks: &'a LuksDevice,
    pub(crate) backend: &'a dyn Backend,
    /// Name of the image, for messages.
    pub(crate) image: &'a str,
    pub(crate) cost: CostLimits,
}

impl Tokens<'_> {
    /// The volume key by a token, if options ask for one. A token that does not open the volume is reported, and a
    /// passphrase may be asked for then, unless options forbid it.
    pub(crate) fn asked_for(&self) -> Result<Option<VolumeKey>, CliError> {
        if !self.args.is_given() {
            return Ok(None);
        }
        match self.volume_key() {
            Ok(key) => Ok(Some(key)),
            Err(error) if self.args.token_only => Err(error),
            Err(error) => {
                note(format_args!("scrim: warning: {error}"));
                Ok(None)
            }
        }
    }

    fn volume_key(&self) -> Result<VolumeKey, CliError> {
        let mut failure = None;
        let mut others = false;
        for token in self.chosen()? {
            let key = match kind(token) {
                KEYRING => self.by_keyring(token, &token.keyslots),
                CLEVIS => self.by_clevis(token),
                _ => {
                    others = true;
                    continue;
                }
            };
            match key {
                Ok(key) => return Ok(key),
                Err(error) => failure = Some(error),
            }
        }
        if others {
            match self.by_cryptsetup() {
                Ok(key) => return Ok(key),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| self.error("no token is left to try")))
    }

    /// The volume key by a token whose passphrase is in a keyring in reach, and opens `slot` if that is named.
    pub(crate) fn in_reach(&self, slot: Option<u8>) -> Option<VolumeKey> {
        let header = self.luks.header();
        // By priority, and without those that are only used if they are named.
        let slots = header.keyslots_to_try(slot).ok()?;
        let tokens = || {
            header
                .tokens()
                .iter()
                .filter(|token| kind(token) == KEYRING)
        };
        slots.into_iter().find_map(|slot| {
            let mut of_slot = tokens().filter(|token| token.keyslots.contains(&slot));
            of_slot.find_map(|token| self.by_keyring(token, &[slot]).ok())
        })
    }

    /// The volume key by the passphrase that a token names in a keyring, in one of these of its key slots.
    fn by_keyring(&self, token: &Token, slots: &[u8]) -> Result<VolumeKey, CliError> {
        let json = token.json.by_ref().raw();
        let name = json.get("key_description").and_then(|name| name.as_str());
        let name = name
            .ok_or_else(|| self.error(&format!("token {} names no key of a keyring", token.id)))?;
        let shown = Foreign::new(name);
        let passphrase = kernel_key::passphrase(name).map_err(|error| {
            self.error(&format!(
                "token {}: the key {shown} cannot be read from the keyring: {error}",
                token.id
            ))
        })?;
        let passphrase = passphrase.ok_or_else(|| {
            self.error(&format!(
                "token {} names the key {shown}, which is in no keyring in reach: add it by `keyctl padd user NAME @u`",
                token.id
            ))
        })?;
        self.by_passphrase(token, slots, &passphrase, "in the keyring")
    }

    /// The tokens that options choose and that open a key slot.
    fn chosen(&self) -> Result<Vec<&Token>, CliError> {
        let TokenKeyArgs {
            token_id,
            token_type,
            ..
        } = self.args;
        let is_chosen = |token: &&Token| {
            let id = token_id.is_none_or(|id| token.id == id);
            let is_of_kind = token_type
                .as_ref()
                .is_none_or(|wanted| kind(token) == wanted.as_str());
            id && is_of_kind && !token.keyslots.is_empty()
        };
        let tokens: Vec<&Token> = self
            .luks
            .header()
            .tokens()
            .iter()
            .filter(is_chosen)
            .collect();
        if tokens.is_empty() {
            return Err(self.error(
                "the header has no such token with a key slot; `scrim dump` lists its tokens",
            ));
        }
        Ok(tokens)
    }

    fn by_clevis(&self, token: &Token) -> Result<VolumeKey, CliError> {
        let jwe = compact_jwe(token).ok_or_else(|| {
            self.error(&format!(
                "token {} has no JWE of Clevis; bind it again",
                token.id
            ))
        })?;
        let clevis = find(CLEVIS).ok_or_else(|| {
            self.error(
                "clevis, which this token is for, is not installed; install the package clevis",
            )
        })?;
        let mut command = Command::new(clevis);
        command
            .arg("decrypt")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // It starts programs of its own, which end with it. It needs no terminal.
        command.process_group(0);
        let mut program = self.start(&mut command, CLEVIS)?;
        if let Some(mut input) = program.child.stdin.take() {
            // One that ends early says so by its exit code.
            let _ = input.write_all(jwe.as_bytes());
        }
        let (send, receive) = mpsc::channel();
        if let Some(mut output) = program.child.stdout.take() {
            std::thread::spawn(move || send.send(read_up_to(&mut output, CLEVIS_MAX)));
        }
        self.wait(program, CLEVIS)?;
        // A process that clevis has left behind may keep its output open.
        let passphrase = match receive.recv_timeout(LAST_OUTPUT) {
            Ok(Ok(passphrase)) if !passphrase.is_empty() => passphrase,
            _ => return Err(self.error("clevis returned no passphrase")),
        };
        self.by_passphrase(token, &token.keyslots, &passphrase, "that clevis returned")
    }

    /// The volume key by the passphrase of a token, in one of its key slots.
    fn by_passphrase(
        &self,
        token: &Token,
        slots: &[u8],
        passphrase: &SecretBytes,
        origin: &str,
    ) -> Result<VolumeKey, CliError> {
        let guard = Guard::new(self.image, self.backend, self.cost);
        let mut failure = None;
        for &slot in slots {
            let unlocked = self
                .luks
                .unlock_guarded(self.backend, Some(slot), passphrase, &guard);
            match unlocked {
                Ok(unlocked) => return Ok(unlocked.key),
                Err(LuksError::NoKey { .. }) => {}
                // Another slot may be one that can be used.
                Err(error) => failure = Some(CliError::from(error).within(self.image)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            self.error(&format!(
                "the passphrase {origin} opens no key slot of token {}",
                token.id
            ))
        }))
    }

    fn by_cryptsetup(&self) -> Result<VolumeKey, CliError> {
        let fail = |error: io::Error| CliError::io("copy the header for its token", &error);
        let cryptsetup = real_cryptsetup().ok_or_else(|| {
            self.error("the token's plugin needs cryptsetup, which is not installed; install the package cryptsetup-bin")
        })?;
        let passphrase = VolumeKey::generate(PASSPHRASE)
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
        let mut copy = self.copy_of_header().map_err(fail)?;
        // Both are inherited: they are not to be closed when the program starts.
        let (read, write) = rustix::pipe::pipe().map_err(|error| fail(error.into()))?;
        let mut command = Command::new(cryptsetup);
        command.args([
            "luksAddKey",
            "--batch-mode",
            "--token-only",
            "--disable-locks",
        ]);
        command.args([
            "--pbkdf",
            "pbkdf2",
            "--pbkdf-force-iterations",
            "1000",
            "--new-keyfile",
        ]);
        command.arg(format!("/proc/self/fd/{}", read.as_raw_fd()));
        command.args(
            self.args
                .token_id
                .iter()
                .map(|id| format!("--token-id={id}")),
        );
        command.args(
            self.args
                .token_type
                .iter()
                .map(|kind| format!("--token-type={kind}")),
        );
        command.arg(format!("/proc/self/fd/{}", copy.as_raw_fd()));
        // A token's PIN is asked for at the terminal.
        let terminal = io::stdin().is_terminal();
        command.stdin(if terminal {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::null());
        // It fits into the pipe.
        let mut write = File::from(write);
        write.write_all(passphrase.expose()).map_err(fail)?;
        drop(write);
        let program = self.start(&mut command, "cryptsetup")?;
        drop(read);
        self.wait(program, "cryptsetup")?;
        let mut bytes = Vec::new();
        copy.rewind()
            .and_then(|()| copy.read_to_end(&mut bytes))
            .map_err(fail)?;
        self.key_of_copy(bytes, &passphrase)
    }

    /// The header and its key slots, in a file that only processes with its descriptor have.
    fn copy_of_header(&self) -> io::Result<File> {
        let len = usize::try_from(self.luks.header().header_end()).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.backend
            .read_at(0, &mut bytes)
            .map_err(io::Error::other)?;
        let mut copy = File::from(memfd_create("header", MemfdFlags::empty())?);
        copy.write_all(&bytes)?;
        Ok(copy)
    }

    /// The volume key in the slot that was added to the copy.
    fn key_of_copy(&self, copy: Vec<u8>, passphrase: &VolumeKey) -> Result<VolumeKey, CliError> {
        let lied =
            || self.error("cryptsetup ended well, but its copy of the header has no new key slot");
        let copy = MemoryBackend::new(copy);
        let luks = LuksDevice::read(&copy).map_err(|_| lied())?;
        let before = self.luks.header().keyslots();
        let is_new = |id: &u8| !before.iter().any(|slot| slot.id == *id);
        let slots = luks.header().keyslots().iter().map(|slot| slot.id);
        let added = slots.into_iter().find(is_new).ok_or_else(lied)?;
        let guard = Guard::new(self.image, &copy, self.cost);
        let passphrase = SecretBytes::copied_from(passphrase.expose());
        let unlocked = luks.unlock_guarded(&copy, Some(added), &passphrase, &guard);
        let key = unlocked.map_err(|_| lied())?.key;
        guard.verify(self.luks.header(), &key)?;
        Ok(key)
    }

    fn start(&self, command: &mut Command, name: &str) -> Result<Program, CliError> {
        let fail = |error: io::Error| CliError::io(format_args!("start {name}"), &error);
        let (says, pipe) = io::pipe().map_err(fail)?;
        command.env("LC_ALL", "C").stderr(pipe);
        let child = command.spawn().map_err(fail)?;
        // The command holds the pipe's other end, without which nothing that is said would end.
        command.stderr(Stdio::null());
        Ok(Program {
            child,
            said: Said::listen(says),
        })
    }

    /// Waits for a program, within the time limit.
    fn wait(&self, mut program: Program, name: &str) -> Result<(), CliError> {
        let limit = Duration::from_secs(self.args.token_timeout.into());
        let ended = program.wait(limit);
        let ended = ended.map_err(|error| CliError::io(format_args!("wait for {name}"), &error))?;
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(self.error(&format!("{name} could not use the token: {}", program.said.last()))),
            None => Err(self.error(&format!(
                "{name} was not done with the token after {} s, and was ended: look after the token, or give it more \
                 time with --token-timeout",
                limit.as_secs()
            ))),
        }
    }

    fn error(&self, message: &str) -> CliError {
        CliError::new(Exit::NoKey, format!("{}: {message}", self.image))
    }
}

/// A program that works on a token.
struct Program {
    child: Child,
    said: Said,
}

impl Program {
    /// Waits until the program ends; ends it if it takes longer, which returns `None`.
    fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        let ended = wait_unless(&mut self.child, || Instant::now() >= deadline)?;
        if ended.is_none() {
            // cryptsetup is in our group, and this is no group then.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.child.kill()?;
            self.child.wait()?;
        }
        Ok(ended)
    }
}

/// The type of a token.
fn kind(token: &Token) -> &str {
    token.kind.by_ref().raw()
}

/// The JWE of a token in compact serialization (RFC 7516, 7.1); in the header it is flattened JSON (7.2.2).
fn compact_jwe(token: &Token) -> Option<String> {
    let jwe = token.json.by_ref().raw().get("jwe")?;
    let parts = ["protected", "encrypted_key", "iv", "ciphertext", "tag"];
    let part = |name: &&str| match jwe.get(name) {
        // With the algorithm "dir" there is no encrypted key.
        None if *name == "encrypted_key" => Some(""),
        part => part?.as_str(),
    };
    let parts: Option<Vec<&str>> = parts.iter().map(part).collect();
    Some(parts?.join("."))
}

/// The installed cryptsetup: not this program, which may have been started by that name.
fn real_cryptsetup() -> Option<PathBuf> {
    let own = std::env::current_exe()
        .and_then(|own| own.canonicalize())
        .ok();
    let usual = [
        "/usr/sbin/cryptsetup",
        "/sbin/cryptsetup",
        "/usr/local/sbin/cryptsetup",
    ];
    let found = find("cryptsetup")
        .into_iter()
        .chain(usual.iter().map(PathBuf::from));
    let is_other = |path: &PathBuf| {
        path.canonicalize()
            .is_ok_and(|path| own.as_deref() != Some(Path::new(&path)))
    };
    found.into_iter().find(is_other)
}
