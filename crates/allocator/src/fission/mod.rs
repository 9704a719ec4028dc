//! Customers to groups: which groups there are, who is in them, and whose seats that confirms or frees.
//!
//! | step | takes → gives | what makes it safe |
//! |---|---|---|
//! | `import` | groups that there are at WeCom → rows | in the order of their ids, from a cursor |
//! | [`told`] | group pools and groups → roster | versions compared; told again to every generation |
//! | `intake` | events of groups → people of the group, a mark | a change follows the version that Redis has, or is read |
//! | [`reader`] | marks, and slowly all groups → `groupchat/get` → who is in, whose seat it was | Redis takes it only if nothing changed meanwhile |
//! | [`join_ways`] | campaigns, groups → join ways at WeCom | the intent is written before the call |
//! | [`asking`] | visitors → seats | one seat for each visitor of a campaign |
//! | [`supply`] | pools that lack groups → groups out of stock, rooms that WeCom opens, people who make some | one process under a lease; rows carry its fence |
//! | [`waiting`] | seats given to those whose requests wait → their answers | waited for with a bound |
//! | [`inviters`] | those whom somebody brought, when their time is over → they count, goals | whoever looks at an edge holds its inviter's row |
//! | [`timers`] | seats whose time is over → given back, once their group was read | an end names what it ends |

pub mod asking;
pub mod campaigns;
pub mod dirty;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod intake;
pub mod inviters;
pub mod join_ways;
pub mod reader;
mod reading;
pub(crate) mod seat_rules;
mod seats;
pub mod standing;
pub mod supply;
pub mod timers;
pub mod told;
pub mod waiting;
