//! One instruction at a time.

use std::arch::asm;
use std::ffi::c_void;
use std::ptr;

/// A signal handler with the state of the thread, which is a `ucontext_t`.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Calls `handler` after every instruction of `act`: the CPU's trap flag stops the thread there.
///
/// # Safety
/// `handler` is a signal handler, and does nothing that `act` may not be interrupted by. One caller
/// in a process at a time.
pub(crate) unsafe fn after_each_instruction(handler: Handler, act: impl FnOnce()) {
    // SAFETY: setting the trap flag has no other effect than to call `handler`, and it is set for no
    // longer than `act`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
        asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        act();
        asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
    }
}
