//! Servers in processes of their own: killed, without root, and in a user namespace.
//!
//! The process is this test program, which runs one test, [`serve`], and learns from its environment what to do.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use scrim_export::fuse::{
    FileTree, Method, MountError, MountOptions, Mounted, RawFile, UnmountError,
};

use crate::common::{NAME, alone, is_mounted, pattern, skip, tool, volume};

const FOLDER: &str = "SCRIM_TEST_FUSE_FOLDER";

/// User without rights, `nobody` on most systems.
const NOBODY: u32 = 65534;

/// Serves a volume until its standard input ends; a test only in a process that was told to.
#[test]
fn serve() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let (volume, _) = volume("");
    let tree = Arc::new(RawFile::new(volume, NAME).unwrap()) as Arc<dyn FileTree>;
    let options = MountOptions {
        name: "an image, with a comma".to_owned(),
        ..MountOptions::default()
    };
    let mounted = match Mounted::start(tree, &folder, &options) {
        Ok(mounted) => mounted,
        Err(error) => {
            println!("refused {error}");
            return;
        }
    };
    // FUSE keeps other users out, so this process looks at the file itself.
    let file = File::options()
        .read(true)
        .write(true)
        .open(folder.join(NAME))
        .unwrap();
    let (data, mut read) = (pattern(1, 3 << 20), vec![0; 3 << 20]);
    file.write_all_at(&data, 123).unwrap();
    file.read_exact_at(&mut read, 123).unwrap();
    assert!(data == read);
    file.sync_all().unwrap();
    let busy = mounted.unmount();
    assert!(matches!(busy, Err(UnmountError::Busy { .. })), "{busy:?}");
    drop(file);
    if mounted.method() == Method::Helper {
        refuses_others();
    }
    println!("ready {:?}", mounted.method());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    mounted.unmount().unwrap();
    mounted.wait();
    assert_eq!(mounted.stop(), 0);
    println!("done");
}

/// A user may not let others in, unless root has allowed it to everyone.
fn refuses_others() {
    let configuration = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if configuration.lines().any(|line| line == "user_allow_other") {
        return;
    }
    let (volume, _) = volume("");
    let tree = Arc::new(RawFile::new(volume, NAME).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let error = Mounted::start(tree, folder.path(), &options).err();
    assert!(matches!(error, Some(MountError::AllowOther)), "{error:?}");
}

/// A process that serves.
struct Server {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// Starts it by `command`, whose last argument is to be the program.
    fn start(mut command: Command, folder: &Path) -> Option<Self> {
        command
            .args(["--exact", "others::serve", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip(&format!("{} is missing", command.get_program().display()));
                return None;
            }
            Err(error) => panic!("{command:?}: {error}"),
        };
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said })
    }

    /// Reads lines up to one that begins with a word; `None` at the end.
    fn wait_for(&mut self, words: &[&str]) -> Option<String> {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line).unwrap() == 0 {
                println!("{all}");
                return None;
            }
            if let Some(word) = words.iter().find_map(|word| line.find(word)) {
                return Some(line[word..].trim().to_owned());
            }
            all.push_str(&line);
        }
    }

    /// Waits until it serves; `None` if the machine does not allow what it was to do.
    fn wait_until_ready(&mut self) -> Option<String> {
        match self.wait_for(&["ready", "refused"]) {
            Some(line) if line.starts_with("ready") => Some(line),
            line => {
                skip(&format!("nothing was mounted: {line:?}"));
                let _ = self.child.wait();
                None
            }
        }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.wait_for(&["done"]).as_deref(), Some("done"));
        assert!(self.child.wait().unwrap().success());
    }
}

fn wait_until_gone(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_mounted(folder) {
        assert!(Instant::now() < deadline, "{} stays", folder.display());
        thread::sleep(Duration::from_millis(20));
    }
}

/// A folder with this program and a folder to mount on, both for everyone.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let open = || Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), open()).unwrap();
    let (program, folder) = (place.path().join("program"), place.path().join("mnt"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, open()).unwrap();
    std::fs::create_dir(&folder).unwrap();
    (place, program, folder)
}

#[test]
fn a_killed_server_leaves_no_mount() {
    let _alone = alone();
    let (_place, program, folder) = place();
    let Some(mut server) = Server::start(Command::new(program), &folder) else {
        return;
    };
    if server.wait_until_ready().is_none() {
        return;
    }
    let file = File::open(folder.join(NAME)).unwrap();
    // Under load: a reader is in the middle of requests.
    let reader = thread::spawn(move || {
        let mut data = vec![0; 1 << 20];
        while file.read_at(&mut data, 0).is_ok() {}
    });
    thread::sleep(Duration::from_millis(50));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    reader.join().unwrap();
    wait_until_gone(&folder);
    std::fs::remove_dir(&folder).unwrap();
}

/// Makes the device, open to everyone; `None` if that is not allowed.
fn open_node(place: &tempfile::TempDir) -> Option<PathBuf> {
    let node = place.path().join("fuse");
    let mut mknod = Command::new("mknod");
    let numbers = ["c", "10", "229"];
    mknod.args(["-m", "666"]).arg(&node).args(numbers);
    if tool(&mut mknod)?.status.success() {
        return Some(node);
    }
    skip("no device can be made here");
    None
}

/// Puts a node in the place of the device, for the rest of a shell's mount namespace, and starts a program.
const WITH_NODE: &str = "mount --bind \"$1\" /dev/fuse && shift && exec \"$@\"";

#[test]
fn a_user_without_root_mounts_by_fusermount3() {
    const INNER: &str = "SCRIM_TEST_FUSE_INNER";
    if !rustix::process::getuid().is_root() {
        skip("only root can become another user");
        return;
    }
    let device = std::fs::metadata("/dev/fuse").map(|device| device.mode());
    if device.is_ok_and(|mode| mode & 0o006 == 0o006) {
        return mount_without_root();
    }
    if std::env::var_os(INNER).is_some() {
        return skip("the device is closed to users");
    }
    // fusermount3 opens it with the user's rights, so this test runs again where it is open.
    let place = tempfile::tempdir().unwrap();
    let Some(node) = open_node(&place) else {
        return;
    };
    let mut probe = Command::new("unshare");
    match tool(probe.args(["--mount", "true"])) {
        None => return,
        // Where / is no mount, as in a chroot.
        Some(output) if !output.status.success() => return skip("no mount namespace can be made"),
        Some(_) => {}
    }
    let mut again = Command::new("unshare");
    again
        .args(["--mount", "sh", "-c", WITH_NODE, "sh"])
        .arg(&node)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("others::a_user_without_root_mounts_by_fusermount3")
        .env(INNER, "1");
    if let Some(output) = tool(&mut again) {
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{output:?}");
    }
}

fn mount_without_root() {
    let _alone = alone();
    let (_place, program, folder) = place();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    for is_killed in [false, true] {
        let mut command = Command::new("setpriv");
        let user = NOBODY.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.arg(&program);
        let Some(mut server) = Server::start(command, &folder) else {
            return;
        };
        match server.wait_until_ready() {
            Some(line) => assert_eq!(line, "ready Helper"),
            None => return,
        }
        // Root is another user, too.
        let seen = std::fs::metadata(folder.join(NAME));
        let refused = seen.unwrap_err().kind();
        assert_eq!(refused, std::io::ErrorKind::PermissionDenied);
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let point = format!(" {} ", folder.display());
        let line = table.lines().find(|line| line.contains(&point)).unwrap();
        assert!(line.contains("fuse.scrim"), "{line}");
        assert!(line.contains("nosuid,nodev"), "{line}");
        assert!(
            line.contains("an\\040image,\\040with\\040a\\040comma"),
            "{line}"
        );
        if is_killed {
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            wait_until_gone(&folder);
        } else {
            server.end();
            assert!(!is_mounted(&folder));
        }
    }
}

#[test]
fn a_user_namespace_mounts_by_itself() {
    if !rustix::process::getuid().is_root() {
        skip("only root can become another user and make a device");
        return;
    }
    let _alone = alone();
    let (place, program, folder) = place();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let Some(node) = open_node(&place) else {
        return;
    };
    let user = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["unshare", "--map-root-user", "--mount"]);
    command.args(["sh", "-c", WITH_NODE, "sh"]);
    command.arg(&node).arg(&program);
    let Some(mut server) = Server::start(command, &folder) else {
        return;
    };
    let Some(line) = server.wait_until_ready() else {
        return;
    };
    assert_eq!(line, "ready Call");
    assert!(!is_mounted(&folder), "the mount belongs to the namespace");
    server.end();
}

/// The rest of a dead server is named, and not covered by another mount.
#[test]
fn a_dead_mount_is_named() {
    let _alone = alone();
    let (_place, program, folder) = place();
    let Some(mut server) = Server::start(Command::new(program), &folder) else {
        return;
    };
    if server.wait_until_ready().is_none() {
        return;
    }
    // The guard is ended first, as a service manager would end a whole group.
    let guards = Command::new("pgrep")
        .args(["-P", &server.child.id().to_string(), "-f", "scrim-guard"])
        .output();
    let Ok(guards) = guards else {
        server.end();
        return skip("pgrep is missing");
    };
    for guard in String::from_utf8_lossy(&guards.stdout).split_whitespace() {
        let killed = Command::new("kill").args(["-9", guard]).status().unwrap();
        assert!(killed.success());
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(is_mounted(&folder));
    let (volume, _) = volume("");
    let tree = Arc::new(RawFile::new(volume, NAME).unwrap());
    let error = Mounted::start(tree, &folder, &MountOptions::default()).err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    let mut umount = Command::new("umount");
    assert!(umount.arg("-l").arg(&folder).status().unwrap().success());
    assert!(error.contains("whose server has ended"), "{error}");
}
