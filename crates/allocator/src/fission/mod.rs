//! Customers to customer groups.

pub(crate) mod import;
