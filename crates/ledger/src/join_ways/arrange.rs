//! Which groups belong into which ways of one campaign. Pure.
//!
//! What is there changes as little as it can: a group stays where it is, and one that lacks a way comes into the first that
//! has room for it, in the order of the pool.

use std::collections::{BTreeMap, BTreeSet};

use allocation::ChatId;

/// A group of the campaign's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    /// Its place in the pool.
    pub place: usize,
    /// A way that leads into it may stay.
    pub keeps: bool,
    /// It needs one.
    pub needs: bool,
}

/// A way and its groups.
pub(super) type Row = (String, Vec<ChatId>);

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arranged {
    /// These lead into other groups from now on.
    pub change: Vec<Row>,
    pub retire: Vec<String>,
    /// Resting ones that are shown again.
    pub revive: Vec<Row>,
    pub add: Vec<Vec<ChatId>>,
}

/// `live` and `resting` in the order in which they were made; `per_way` is at least 1.
pub(super) fn arrange(
    wishes: &BTreeMap<ChatId, Wish>,
    per_way: usize,
    live: Vec<Row>,
    resting: Vec<Row>,
) -> Arranged {
    let mut arranged = Arranged::default();
    let mut taken: BTreeSet<ChatId> = BTreeSet::new();
    let keeps = |chat: &ChatId| wishes.get(chat).is_some_and(|wish| wish.keeps);
    let mut stay: Vec<(Row, Vec<ChatId>)> = Vec::new();
    for (way, chats) in live {
        let mut kept: Vec<ChatId> = Vec::new();
        for chat in &chats {
            if kept.len() < per_way && keeps(chat) && taken.insert(chat.clone()) {
                kept.push(chat.clone());
            }
        }
        match kept.is_empty() {
            true => arranged.retire.push(way),
            false => stay.push(((way, chats), kept)),
        }
    }
    let mut missing: Vec<(usize, ChatId)> = wishes
        .iter()
        .filter(|(chat, wish)| wish.needs && !taken.contains(*chat))
        .map(|(chat, wish)| (wish.place, chat.clone()))
        .collect();
    missing.sort();
    let mut missing: Vec<ChatId> = missing.into_iter().map(|(_, chat)| chat).collect();
    for (way, chats) in resting {
        let mut again: Vec<ChatId> = chats
            .into_iter()
            .filter(|chat| missing.contains(chat))
            .collect();
        again.truncate(per_way);
        if !again.is_empty() {
            missing.retain(|chat| !again.contains(chat));
            arranged.revive.push((way, again));
        }
    }
    let mut missing = missing.into_iter();
    for ((way, before), mut kept) in stay {
        kept.extend(missing.by_ref().take(per_way - kept.len()));
        // WeCom fills them in this order.
        kept.sort_by_key(|chat| wishes.get(chat).map(|wish| wish.place));
        if kept != before {
            arranged.change.push((way, kept));
        }
    }
    let missing: Vec<ChatId> = missing.collect();
    arranged.add = missing.chunks(per_way).map(<[_]>::to_vec).collect();
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chats(names: &str) -> Vec<ChatId> {
        let names = names.split_whitespace();
        names.map(|name| ChatId::new(name).unwrap()).collect()
    }

    /// In the pool's order. `a` needs a way, `a.` may keep it, `a!` must not.
    fn wishes(text: &str) -> BTreeMap<ChatId, Wish> {
        let wish = |(place, word): (usize, &str)| {
            let name = word.trim_end_matches(['.', '!']);
            let wish = Wish {
                place,
                keeps: !word.ends_with('!'),
                needs: name == word,
            };
            (ChatId::new(name).unwrap(), wish)
        };
        text.split_whitespace().enumerate().map(wish).collect()
    }

    fn row(way: &str, names: &str) -> Row {
        (way.to_owned(), chats(names))
    }

    #[test]
    fn each_group_gets_one_of_its_own() {
        let arranged = arrange(&wishes("b a c. d!"), 1, Vec::new(), Vec::new());
        assert_eq!(arranged.add, [chats("b"), chats("a")]);
        let live = vec![
            row("1", "a"),
            row("2", "c"),
            row("3", "d"),
            row("4", "gone"),
        ];
        let arranged = arrange(&wishes("b a c. d!"), 1, live, Vec::new());
        assert_eq!(arranged.add, [chats("b")]);
        assert_eq!(arranged.retire, ["3", "4"]);
        assert!(arranged.change.is_empty() && arranged.revive.is_empty());
    }

    #[test]
    fn several_share_one_in_the_pools_order() {
        let new = arrange(&wishes("d c b a"), 3, Vec::new(), Vec::new());
        assert_eq!(new.add, [chats("d c b"), chats("a")]);
        // One has left, another is new: the others stay where they are.
        let live = vec![row("1", "d c b"), row("2", "a")];
        let arranged = arrange(&wishes("e d c! b a"), 3, live, Vec::new());
        assert_eq!(arranged.change, [row("1", "e d b")]);
        assert!(arranged.add.is_empty() && arranged.retire.is_empty());
    }

    #[test]
    fn fewer_groups_in_a_way_are_other_ways() {
        let live = vec![row("1", "a b c"), row("2", "d")];
        let arranged = arrange(&wishes("a b c d"), 1, live, Vec::new());
        assert_eq!(arranged.change, [row("1", "a")]);
        assert_eq!(arranged.add, [chats("b"), chats("c")]);
    }

    #[test]
    fn a_resting_one_comes_back_and_no_group_has_two() {
        let live = vec![row("1", "a"), row("2", "a")];
        let resting = vec![row("3", "b"), row("4", "b"), row("5", "a")];
        let arranged = arrange(&wishes("a b"), 1, live, resting);
        assert_eq!(arranged.retire, ["2"]);
        assert_eq!(arranged.revive, [row("3", "b")]);
        assert!(arranged.add.is_empty() && arranged.change.is_empty());
    }
}
