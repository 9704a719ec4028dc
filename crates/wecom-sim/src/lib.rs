//! wecom-sim
