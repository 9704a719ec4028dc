//! test-redis
