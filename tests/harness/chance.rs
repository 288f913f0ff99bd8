//! Numbers that look random and are the same in every run.

use k8s_openapi::jiff::Timestamp;

/// The seed that `SEED` names; without it, one from the clock.
pub fn seed() -> u64 {
    let named = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| Timestamp::now().as_millisecond().unsigned_abs() % 1_000_000)
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's answer to a number.
pub fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// All choices of a test, from one seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        let number = mixed(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
