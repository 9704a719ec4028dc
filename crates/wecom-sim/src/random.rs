//! Seeded randomness without a shared state: each draw is named by what it is for, so that the order in
//! which threads run changes nothing.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

/// What a draw is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum For {
    Fault = 1,
    Latency,
    Id,
    Token,
    WelcomeCode,
    Scan,
    Transfer,
    Callback,
    Seal,
    GroupVersion,
    GroupLag,
    GroupMove,
    GroupLeave,
}

impl Random {
    /// The generator of the `number`th thing of its kind.
    pub(crate) fn new(seed: u64, purpose: For, number: u64) -> Self {
        let mut random = Self(seed ^ (purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.0 = random.next() ^ number.wrapping_mul(0xd605_1f6d_2a1f_9c2d);
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Below `n`; 0 for 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // Multiply and shift; the bias is below n / 2^64.
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// From 0 to `most`, both included; 0 when `most` is not positive.
    pub(crate) fn up_to_ms(&mut self, most: i64) -> i64 {
        let span = u64::try_from(most).map_or(0, |most| most.saturating_add(1));
        i64::try_from(self.below(span)).unwrap_or(0)
    }

    /// Letters and digits.
    pub(crate) fn text(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..length)
            .map(|_| char::from(LETTERS[self.below(LETTERS.len() as u64) as usize]))
            .collect()
    }

    pub(crate) fn bytes16(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next().to_be_bytes());
        bytes
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// FNV-1a: a number for a name, the same in every run.
pub(crate) fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
