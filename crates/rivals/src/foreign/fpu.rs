//! The vector registers as a kernel keeps them.

/// Memory for the registers as `FXSAVE` stores them.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(16))]
pub(crate) struct Registers([u8; 512]);

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub(crate) fn new() -> Option<Self> {
        Some(Self([0; _]))
    }

    /// Does `work` between saving and restoring the vector registers, as the kernels of 2015 had to
    /// around every use of them.
    #[inline(always)]
    pub(crate) fn saved<T>(&mut self, work: impl FnOnce() -> T) -> T {
        use core::arch::asm;

        let room = self.0.as_mut_ptr();
        // SAFETY: the room is as long and as aligned as the instruction wants.
        unsafe { asm!("fxsave64 [{}]", in(reg) room, options(nostack, preserves_flags)) };
        let done = work();
        // SAFETY: the room was filled above, so that nothing is loaded but what was valid then. The
        // compiler is told that no vector register keeps its value.
        unsafe {
            asm!(
                "fxrstor64 [{}]",
                in(reg) room,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                out("mm0") _, out("mm1") _, out("mm2") _, out("mm3") _,
                out("mm4") _, out("mm5") _, out("mm6") _, out("mm7") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        done
    }
}

/// Other processors have other instructions for it, and no place in a comparison with 2015.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) enum Registers {}

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    pub(crate) fn new() -> Option<Self> {
        None
    }

    pub(crate) fn saved<T>(&mut self, _: impl FnOnce() -> T) -> T {
        match *self {}
    }
}
