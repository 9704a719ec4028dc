//! Numbers on the command line: what makes no sense is refused before anything is built, with the range that is taken.

/// A whole number of the range.
pub(crate) fn whole(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        text.parse()
            .ok()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
    }
}

/// A part of the whole, from `least` to 1.
pub(crate) fn share(
    least: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        text.parse()
            .ok()
            // Not a number is in no range.
            .filter(|number| (least..=1.0).contains(number))
            .ok_or_else(|| format!("must be a number from {least} to 1"))
    }
}
