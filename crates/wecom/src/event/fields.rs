//! The nodes of a message as a flat list with depths, borrowed from the plaintext.
//!
//! A map by name would lose repeated siblings and let nested nodes leak into top-level fields.

use std::borrow::Cow;

use crate::redacted::Redacted;
use crate::xml::{Scanner, Token, XmlError, append};

pub(super) struct Fields<'a>(Vec<Node<'a>>);

struct Node<'a> {
    /// 1 for the children of the root.
    depth: usize,
    name: &'a str,
    /// Of leaves only; what stands between child elements is layout.
    text: Cow<'a, str>,
    leaf: bool,
}

impl Node<'_> {
    fn is_field(&self, name: &str) -> bool {
        self.depth == 1 && self.name == name
    }
}

impl<'a> Fields<'a> {
    pub(super) fn parse(plaintext: &'a str) -> Result<Self, XmlError> {
        let mut scanner = Scanner::new(plaintext)?;
        let mut nodes: Vec<Node<'a>> = Vec::with_capacity(16);
        // Text belongs to the last node until an end tag: after that it is layout.
        let mut in_leaf = false;
        loop {
            let plain = scanner.plain_element();
            let token = match plain {
                Some((name, _)) => Token::Open(name),
                None => match scanner.next()? {
                    Some(token) => token,
                    None => return Ok(Self(nodes)),
                },
            };
            match token {
                Token::Open(name) => {
                    if in_leaf && let Some(parent) = nodes.last_mut() {
                        parent.leaf = false;
                        parent.text = Cow::Borrowed("");
                    }
                    let (depth, text) = match plain {
                        Some((_, text)) => (scanner.depth(), text),
                        None => (scanner.depth() - 1, ""),
                    };
                    // The root itself is no field.
                    if depth > 0 {
                        nodes.push(Node {
                            depth,
                            name,
                            text: Cow::Borrowed(text),
                            leaf: true,
                        });
                    }
                    in_leaf = depth > 0 && plain.is_none();
                }
                Token::Text(piece) => {
                    if in_leaf && let Some(node) = nodes.last_mut() {
                        append(&mut node.text, piece);
                    }
                }
                Token::Close => in_leaf = false,
            }
        }
    }

    /// The text of the first top-level node of this name, trimmed; nothing if it is absent or empty.
    /// For ids, enums and numbers.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        Some(self.text(name)?.trim_ascii()).filter(|text| !text.is_empty())
    }

    /// The same untrimmed, for what people wrote.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let node = self.0.iter().find(|node| node.is_field(name))?;
        Some(node.text.as_ref()).filter(|text| !text.is_empty())
    }

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(super) fn owned(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    pub(super) fn redacted(&self, name: &str) -> Option<Redacted> {
        self.get(name).map(Redacted::new)
    }

    /// Nothing if the text is no number: a bad one must not lose the event.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// A comma list in one node (`1,2,3`).
    pub(super) fn comma_list(&self, name: &str) -> Vec<String> {
        let list = self.get(name).unwrap_or_default();
        list.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Every top-level node of this name.
    pub(super) fn repeated(&self, name: &str) -> Vec<String> {
        let nodes = self.0.iter().filter(|node| node.is_field(name));
        nodes
            .map(|node| node.text.trim_ascii())
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The leaves directly below the top-level node `list`; an empty one is none.
    pub(super) fn items(&self, list: &str) -> Vec<String> {
        let mut inside = false;
        let mut items = Vec::new();
        for node in &self.0 {
            match node.depth {
                1 => inside = node.name == list,
                2 if inside && node.leaf => {
                    let text = node.text.trim_ascii();
                    if !text.is_empty() {
                        items.push(text.to_owned());
                    }
                }
                _ => {}
            }
        }
        items
    }

    /// All leaves in document order, named by their path below the root.
    pub(super) fn leaves(&self) -> Vec<(String, String)> {
        let mut path: Vec<&str> = Vec::new();
        let mut leaves = Vec::new();
        for node in &self.0 {
            path.truncate(node.depth - 1);
            path.push(node.name);
            if node.leaf {
                leaves.push((path.join("/"), node.text.clone().into_owned()));
            }
        }
        leaves
    }
}
