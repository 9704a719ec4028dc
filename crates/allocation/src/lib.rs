//! allocation
