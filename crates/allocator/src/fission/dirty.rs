//! Dirty marks of groups. The entity is WeCom's chat_id.

/// Somebody came or went: `groupchat/get` says who is in it. The gateway and events mark it, and whoever must know.
pub const CHAT: &str = "chat";
/// An event said that there is a new one: read, it becomes known.
pub const CHAT_NEW: &str = "chat_new";
/// An event said that it is no more.
pub const CHAT_GONE: &str = "chat_gone";
