//! The virtual machine that a guest boots in.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cache::Parts;
use crate::error::{Doing, Error};
use crate::host;

/// Resources of a guest. The default is one CPU, 1 GiB, and nothing shared.
pub struct Machine {
    pub cpus: u8,
    pub memory_mib: u32,
    /// A program that jobs find on their `PATH` as `scrim`.
    pub program: Option<PathBuf>,
    /// A folder of the host that jobs find as `/share`, their working directory. They can write to
    /// it.
    pub share: Option<PathBuf>,
    /// Destination of the guest's serial console.
    pub console: Console,
    /// Flag that ends the guest when it is set.
    pub interrupted: Option<Arc<AtomicBool>>,
}

/// Destination of a guest's serial console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    /// A file, which errors quote.
    Log,
    /// The terminal on our standard input and output, for [`Guest::shell`](crate::Guest::shell).
    Terminal,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cpus: 1,
            memory_mib: 1024,
            program: None,
            share: None,
            console: Console::Log,
            interrupted: None,
        }
    }
}

impl Machine {
    /// Starts QEMU on `parts`, with `folder` as the guest's `/host`. Its three ports connect to the
    /// sockets of those names there, and its console is the file `console` there.
    pub(crate) fn start(&self, parts: &Parts, folder: &Path) -> Result<Child, Error> {
        let mut qemu = host::program("qemu-system-x86_64")?;
        qemu.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ])
        // "max" has every feature that the emulation knows, AES and AVX2 among them.
        .args(["-accel", "tcg", "-machine", "q35", "-cpu", "max"])
        .args([
            "-m",
            &self.memory_mib.to_string(),
            "-smp",
            &self.cpus.to_string(),
        ])
        .arg("-kernel")
        .arg(&parts.vmlinuz)
        .arg("-initrd")
        .arg(&parts.initrd)
        .args(["-append", &self.kernel_arguments()])
        .args([
            "-drive",
            &format!(
                "file={},format=raw,if=virtio,readonly=on",
                escaped(&parts.userland)
            ),
        ])
        .args(["-device", "virtio-serial-pci"]);
        for port in crate::channel::PORTS {
            let socket = folder.join(port);
            qemu.args([
                "-chardev",
                &format!("socket,id={port},path={}", escaped(&socket)),
            ])
            .args([
                "-device",
                &format!("virtserialport,chardev={port},name={port}"),
            ]);
        }
        let mut shared = vec![("host", folder)];
        shared.extend(self.share.as_deref().map(|share| ("share", share)));
        for (tag, path) in shared {
            let path = escaped(path);
            qemu.args([
                "-virtfs",
                &format!("local,path={path},mount_tag={tag},security_model=none"),
            ]);
        }
        self.connect_console(&mut qemu, folder)?;
        qemu.spawn().map_err(|source| Error::Io {
            doing: "run qemu-system-x86_64".to_owned(),
            source,
        })
    }

    /// A kernel that fails ends the guest at once, and does not wait for hardware that is not there.
    fn kernel_arguments(&self) -> String {
        let mut arguments = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr \
                             random.trust_cpu=on no_timer_check tsc=reliable"
            .to_owned();
        if self.share.is_some() {
            arguments.push_str(" scrim.share");
        }
        arguments
    }

    fn connect_console(&self, qemu: &mut Command, folder: &Path) -> Result<(), Error> {
        let log = folder.join("console");
        let file = std::fs::File::create(&log).doing("make", &log)?;
        qemu.stderr(file.try_clone().doing("use", &log)?);
        match self.console {
            Console::Log => qemu
                .args(["-serial", &format!("file:{}", escaped(&log))])
                .stdin(Stdio::null())
                .stdout(file),
            Console::Terminal => qemu.args(["-serial", "mon:stdio"]),
        };
        Ok(())
    }
}

/// A path within one of QEMU's option lists, where a comma would end it.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
