//! Which instruction set the processor has.

/// The instruction sets that kernels are specialised for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Isa {
    /// What the target guarantees.
    #[default]
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// As `Avx2`, with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// The best that this processor and its system support.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            x86::detect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Isa::Portable
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Isa;
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    #[target_feature(enable = "xsave")]
    fn enabled_state() -> u64 {
        // SAFETY: the caller has checked that the system enabled XGETBV, and register 0 always exists.
        unsafe { _xgetbv(0) }
    }

    pub(super) fn detect() -> Isa {
        if __cpuid(0).eax < 7 {
            return Isa::Portable;
        }
        let (one, seven) = (__cpuid(1), __cpuid_count(7, 0));
        let has = |register: u32, bits: &[u32]| bits.iter().all(|b| register & (1 << b) != 0);
        // FMA, XSAVE, OSXSAVE, AVX, F16C.
        if !has(one.ecx, &[12, 26, 27, 28, 29]) || !has(seven.ebx, &[5]) {
            return Isa::Portable;
        }
        // SAFETY: the processor and the system report XSAVE.
        let state = unsafe { enabled_state() };
        if state & 0b110 != 0b110 {
            return Isa::Portable;
        }
        // AVX-512 F, DQ, BW, VL and the system saving its registers.
        if has(seven.ebx, &[16, 17, 30, 31]) && state & 0b1110_0110 == 0b1110_0110 {
            return Isa::Avx512;
        }
        Isa::Avx2
    }
}

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn agrees_with_the_standard_library() {
        let avx2 = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        assert_eq!(Isa::detect() >= Isa::Avx2, avx2);
        let avx512 = avx2
            && std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl");
        assert_eq!(Isa::detect() >= Isa::Avx512, avx512);
    }
}
