//! Dirty marks: kinds and how their entities are written. They carry the outside id and not its hash: the gateway and
//! the audit mark customers whom the ledger has never seen, so nothing could turn the hash back. A mark lives until it is
//! read, and forgetting a customer removes it.

/// `userid U+001F external_userid`: `externalcontact/get` decides.
pub const PAIR: &str = "pair";
/// As `PAIR`: the second look, for reads that lagged.
pub const PAIR_LATE: &str = "pair_late";
/// `external_userid U+001F taker` (taker may be empty): `transfer_result` decides.
pub const TRANSFER: &str = "transfer";
/// `userid`: `user/get` decides.
pub const MEMBER: &str = "member";
pub const SEPARATOR: char = '\u{1f}';
/// The kinds that name customers.
pub const OF_CUSTOMERS: [&str; 3] = [PAIR, PAIR_LATE, TRANSFER];

/// Whether a mark is about this customer.
pub fn names(entity: &str, external_userid: &str) -> bool {
    entity.split(SEPARATOR).any(|part| part == external_userid)
}
