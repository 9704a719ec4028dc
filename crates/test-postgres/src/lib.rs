//! test-postgres
