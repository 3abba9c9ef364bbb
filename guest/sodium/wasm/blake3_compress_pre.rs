// Out of line, for the two functions that share it.
#[inline(never)]
fn compress_pre(
    cv: &CVWords,
    block: &[u8; BLOCK_LEN],
    block_len: u8,
    counter: u64,
    flags: u8,
) -> [u32; 16] {
    let words = crate::platform::words_from_le_bytes_64(block);
    let mut state = [0; 16];
    state[..8].copy_from_slice(cv);
    state[8..12].copy_from_slice(&IV[..4]);
    state[12..].copy_from_slice(&[
        counter_low(counter),
        counter_high(counter),
        block_len.into(),
        flags.into(),
    ]);
    for index in 0..MSG_SCHEDULE.len() {
        round(&mut state, &words, index);
    }
    state
}

