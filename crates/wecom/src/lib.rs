//! wecom
