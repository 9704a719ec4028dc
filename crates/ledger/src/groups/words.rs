//! What a group may be, and how it came to us.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<$name, Self::Err> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(concat!("no ", $what, " of a group")),
                }
            }
        }
    };
}

words! {
    GroupState, "state" {
        /// Visitors are shown it while it has room.
        Open = "open",
        /// They are not: an operator says so.
        Closed = "closed",
        /// In stock, until supply opens it.
        Spare = "spare",
        /// No more at WeCom, and for ever.
        Dismissed = "dismissed",
    }
}

words! {
    /// How we came to know of it.
    GroupSource, "source" {
        Import = "import",
        Console = "console",
        AutoRoom = "auto_room",
        Event = "event",
    }
}
