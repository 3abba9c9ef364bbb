//! The vector registers of the processor, as compiled WebAssembly finds them.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "an instruction that not every processor has")
)]

/// Clears the upper halves of the vector registers if the processor has such.
///
/// Cranelift mixes instructions that know of the upper halves with those that do not. While something is left in them by
/// whatever the thread did before, the latter wait for each other, and encryption in the core takes ten times as long
/// (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Mixing AVX Code with SSE Code").
#[inline]
pub(super) fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has the instruction, and the compiler knows which registers it changes.
        unsafe { core::arch::x86_64::_mm256_zeroupper() }
    }
}
